//! tmp
use histories::{checker, handles, report::Report, scenario::Scenario, timer::Timer};
#[test]
fn timers() {
    let n: u64 = std::env::var("HISTORIES").ok().and_then(|s| s.parse().ok()).unwrap_or(1000);
    let base: u64 = std::env::var("SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let mut report = Report::default();
    for i in 0..n {
        let s = Scenario::of(base + i);
        let h = handles::record(&s, None);
        report.add::<Timer>(&h);
        if let Err(e) = checker::check::<Timer>(&h) {
            panic!("{s:?}\n{e}");
        }
    }
    println!("{report}");
}
