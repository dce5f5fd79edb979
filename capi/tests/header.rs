//! The header that is checked in is the one that the crate makes.

use std::path::Path;
use std::{env, fs};

#[test]
fn the_header_is_up_to_date() {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let header = crate_dir.join("include/tickless.h");
    let config = cbindgen::Config::from_file(crate_dir.join("cbindgen.toml")).unwrap();
    let mut made = Vec::new();
    let builder = cbindgen::Builder::new().with_crate(crate_dir).with_config(config);
    builder.generate().unwrap().write(&mut made);
    let made = String::from_utf8(made).unwrap();
    if env::var_os("TICKLESS_WRITE_HEADER").is_some() {
        fs::write(&header, &made).unwrap();
    }
    let checked_in = fs::read_to_string(&header).unwrap_or_default();
    let differs = checked_in.lines().zip(made.lines()).position(|(old, new)| old != new);
    assert!(
        checked_in == made,
        "{} is out of date (line {:?}): run this with TICKLESS_WRITE_HEADER=1",
        header.display(),
        differs.map(|line| line + 1)
    );
}
