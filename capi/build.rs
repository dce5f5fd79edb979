//! What the linker has to know about the shared library.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    if target == "linux" {
        // The number is that of `tickless_abi_version`: it changes when programs must be rebuilt.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libtickless.so.1");
        // Threads keep memory for the engines that they used, and free it when they end.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
