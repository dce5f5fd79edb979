//! Calls that the system refuses from now on: for child processes.

/// Makes the system answer a call with `what` from now on: in this thread, or in all threads.
pub fn refuse(call: libc::c_long, what: u32, everywhere: bool) {
    let step = |code: u32, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf, k };
    let mut steps = [
        // The number of the call is what the structure begins with.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, call as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, what),
        step(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    let flags = if everywhere { libc::SECCOMP_FILTER_FLAG_TSYNC } else { 0 };
    // SAFETY: both calls take numbers, and the program lives through the second.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_SET_MODE_FILTER;
        assert_eq!(libc::syscall(libc::SYS_seccomp, mode, flags, &raw const program), 0);
    }
}
