//! What the compiler calls before each access to memory, if it instruments a program as it does for
//! ThreadSanitizer, whose runtime this replaces.
