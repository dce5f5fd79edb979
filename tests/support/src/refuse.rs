//! Calls that the system refuses from now on: for child processes.

use std::mem::offset_of;

use libc::{seccomp_data, sock_filter};

/// Makes the system answer a call with `what` from now on: in this thread, or in all threads.
pub fn refuse(call: libc::c_long, what: u32, everywhere: bool) {
    let steps = [look(offset_of!(seccomp_data, nr)), unless(call as u32, 1), answer(what)];
    install(&steps, if everywhere { libc::SECCOMP_FILTER_FLAG_TSYNC } else { 0 });
}

/// Makes the system answer with `what` when this thread is about to wake another one.
pub fn refuse_wakeups(what: u32) {
    // Numbers are 32 bits wide there, whichever comes first.
    let second = offset_of!(seccomp_data, args) + size_of::<u64>();
    let second = second + if cfg!(target_endian = "big") { size_of::<u32>() } else { 0 };
    let steps = [
        look(offset_of!(seccomp_data, nr)),
        unless(libc::SYS_futex as u32, 3),
        look(second),
        unless((libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as u32, 1),
        answer(what),
    ];
    install(&steps, 0);
}

fn step(code: u32, jf: u8, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf, k }
}

/// Looks at a number of the call.
fn look(at: usize) -> sock_filter {
    step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, at as u32)
}

/// Skips so many steps unless the number is `k`.
fn unless(k: u32, steps: u8) -> sock_filter {
    step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, steps, k)
}

fn answer(what: u32) -> sock_filter {
    step(libc::BPF_RET | libc::BPF_K, 0, what)
}

/// Installs these steps. What comes to their end is allowed.
fn install(steps: &[sock_filter], flags: libc::c_ulong) {
    let mut steps = steps.to_vec();
    steps.push(answer(libc::SECCOMP_RET_ALLOW));
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: both calls take numbers, and the program lives through the second.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_SET_MODE_FILTER;
        assert_eq!(libc::syscall(libc::SYS_seccomp, mode, flags, &raw const program), 0);
    }
}
