//! What is measured of the machine and of the process: time, CPU, memory, threads.

pub(crate) mod clock;
pub(crate) mod handoff;
pub(crate) mod memory;
pub(crate) mod switches;
pub(crate) mod usage;
