//! Picking records for a figure.

use crate::record::Record;
use crate::registry::ALL;
use crate::sample::Sample;
use crate::workload::Workload;

/// Those of a workload, runs during which the threads moved left out if there are others.
pub(super) fn of_workload(records: &[Record], workload: Workload) -> Vec<&Record> {
    let all: Vec<_> = records.iter().filter(|r| r.workload == workload.name()).collect();
    let is_kept = |record: &Record| {
        let is_same =
            |other: &Record| other.contender == record.contender && other.threads == record.threads;
        !record.is_unsteady() || !all.iter().any(|other| is_same(other) && !other.is_unsteady())
    };
    all.iter().copied().filter(|record| is_kept(record)).collect()
}

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
fn unsteady_runs_count_only_if_there_are_no_others() {
    let record = |threads, is_unsteady: bool| Record {
        contender: "tokio".to_owned(),
        workload: "reset".to_owned(),
        threads,
        n: 1,
        ns_per_op: 1.0,
        cpu_ns_per_op: 1.0,
        extra: [("unsteady".to_owned(), is_unsteady.into())].into_iter().collect(),
    };
    let records = [record(1, true), record(2, true), record(2, false)];
    let picked = of_workload(&records, Workload::Reset);
    assert_eq!(picked, [&records[0], &records[2]]);
    assert_eq!(thread_counts(&picked), [1, 2]);
    assert_eq!(median(&picked, "ns_per_op"), Some(1.0));
    assert_eq!(median(&picked, "nothing"), None);
}
