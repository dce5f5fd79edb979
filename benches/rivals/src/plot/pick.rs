//! Picking records for a figure.

use crate::record::Record;
use crate::registry::ALL;
use crate::sample::Sample;

/// By contender, in the order in which contenders are listed.
pub(super) fn by_contender<'a>(records: &[&'a Record]) -> Vec<(String, Vec<&'a Record>)> {
    let place = |name: &str| ALL.iter().position(|entry| entry.name == name);
    let mut names: Vec<_> = records.iter().map(|record| record.contender.as_str()).collect();
    names.sort_by_key(|name| (place(name), *name));
    names.dedup();
    let of = |name| records.iter().copied().filter(|r| r.contender == name).collect();
    names.into_iter().map(|name| (name.to_owned(), of(name))).collect()
}

/// The numbers of threads that occur.
pub(super) fn thread_counts(records: &[&Record]) -> Vec<usize> {
    let mut counts: Vec<_> = records.iter().map(|record| record.threads).collect();
    counts.sort_unstable();
    counts.dedup();
    counts
}

/// The median of a number, if there is any.
pub(super) fn median(records: &[&Record], number: &str) -> Option<f64> {
    let numbers: Vec<_> = records.iter().filter_map(|record| record.number(number)).collect();
    (!numbers.is_empty()).then(|| Sample::new(numbers).median())
}

#[test]
fn records_are_picked_by_contender_and_threads() {
    let record = |contender: &str, threads| Record {
        contender: contender.to_owned(),
        workload: "reset".to_owned(),
        threads,
        n: 1,
        ns_per_op: 1.0,
        cpu_ns_per_op: 1.0,
        extra: serde_json::Map::new(),
    };
    let records = [record("tokio", 2), record("tickless", 1), record("tokio", 1)];
    let records: Vec<_> = records.iter().collect();
    let names: Vec<_> = by_contender(&records).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["tickless", "tokio"]);
    assert_eq!(thread_counts(&records), [1, 2]);
    assert_eq!(median(&records, "ns_per_op"), Some(1.0));
    assert_eq!(median(&records, "nothing"), None);
}
