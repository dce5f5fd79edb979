//! The crate's wheel behind functions for C, as `loop.cpp` measures it: what a C interface of it
//! would cost.

use tickless_wheel::{Geometry, Key, Tick, Wheel};

/// A wheel like `tickless_wheel.h`'s: 256 slots, all within reach.
#[unsafe(no_mangle)]
pub extern "C" fn rust_wheel_new(now: u64) -> *mut Wheel<u64> {
    let geometry = Geometry::new(256, 256).expect("a valid geometry");
    Box::into_raw(Box::new(Wheel::with_start(geometry, Tick::new(now))))
}

/// # Safety
/// It is a wheel, which is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rust_wheel_free(wheel: *mut Wheel<u64>) {
    // SAFETY: as the caller promises.
    drop(unsafe { Box::from_raw(wheel) });
}

/// # Safety
/// It is a wheel.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rust_wheel_insert(wheel: *mut Wheel<u64>, deadline: u64, of: u64) -> u64 {
    // SAFETY: as the caller promises.
    let key = unsafe { &mut *wheel }.insert(Tick::new(deadline), of);
    // SAFETY: a key is eight bytes.
    unsafe { std::mem::transmute::<Key, u64>(key) }
}

/// # Safety
/// It is a wheel, and a key of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rust_wheel_cancel(wheel: *mut Wheel<u64>, key: u64) -> i32 {
    // SAFETY: as the caller promises.
    let key = unsafe { std::mem::transmute::<u64, Key>(key) };
    // SAFETY: as the caller promises.
    unsafe { &mut *wheel }.cancel(key).is_some().into()
}

/// # Safety
/// It is a wheel, and a key of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rust_wheel_reset(wheel: *mut Wheel<u64>, key: u64, deadline: u64) -> i32 {
    // SAFETY: as the caller promises.
    let key = unsafe { std::mem::transmute::<u64, Key>(key) };
    // SAFETY: as the caller promises.
    unsafe { &mut *wheel }.reset(key, Tick::new(deadline)).into()
}

/// # Safety
/// It is a wheel.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rust_wheel_advance(wheel: *mut Wheel<u64>, now: u64) -> u64 {
    // SAFETY: as the caller promises.
    unsafe { &mut *wheel }.advance(Tick::new(now), |_, _, payload| {
        std::hint::black_box(payload);
    }) as u64
}

/// # Safety
/// It is a wheel.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rust_wheel_advance_within(
    wheel: *mut Wheel<u64>,
    now: u64,
    most: u64,
) -> u64 {
    // SAFETY: as the caller promises.
    unsafe { &mut *wheel }.advance_within(Tick::new(now), most as usize, |_, _, payload| {
        std::hint::black_box(payload);
    }) as u64
}

/// # Safety
/// It is a wheel.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rust_wheel_next(wheel: *mut Wheel<u64>) -> u64 {
    // SAFETY: as the caller promises.
    unsafe { &mut *wheel }.next_expiration().map_or(u64::MAX, Tick::get)
}
