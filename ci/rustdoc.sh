#!/bin/sh
# rustdoc as docs.rs has it, where unstable switches work. Cargo calls it if RUSTDOC names it. If the variable were
# set for cargo, too, every crate whose build script asks for it would be built anew, with all that depends on it.
RUSTC_BOOTSTRAP=1 exec rustdoc "$@"
