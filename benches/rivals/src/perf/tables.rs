//! The tables of the documents, in Markdown.

use super::parts;
use super::quote::spread;
use super::shape::{Column, Key, Table, lines};
use crate::book::{Book, Kept};
use crate::sample::Sample;

const CONTENDER: &[Key] = &[Key::Contender];
const BY_THREADS: &[Column] = &[
    Column::of("CPU, 1 thread", "cpu").on(1).spread(),
    Column::of("CPU, 2 threads", "cpu").on(2).spread(),
    Column::of("wall, 1 thread", "wall").on(1),
    Column::of("wall, 2 threads", "wall").on(2),
];
const FIRING: &[Column] = &[
    Column::of("CPU ns", "cpu").spread(),
    Column::of("one schedule, wall ns", "wall"),
    Column::of("late p50 us", "p50"),
    Column::of("p99 us", "p99").spread(),
    Column::of("p99.9 us", "late_us.p999"),
    Column::of("early", "early"),
];
const WAITING: &[Column] = &[
    Column::of("late p50 us", "p50").spread(),
    Column::of("p99 us", "p99").spread(),
    Column::of("CPU us per timer", "cpu").by(1e3).spread(),
];
const PURGATORY: &[Column] = &[
    Column::of("achieved per s", "per_s"),
    Column::of("CPU ns", "cpu").spread(),
    Column::of("late p50 us", "p50"),
    Column::of("p99 us", "p99"),
    Column::of("peak MB", "peak_mb"),
];
const HTTP: &[Column] = &[
    Column::of("CPU us per request", "cpu").by(1e3).spread(),
    Column::of("over *none*", "cpu").by(1e3).over_floor(),
    Column::of("requests per s", "per_s").spread(),
    Column::of("p50 us", "latency_us.p50"),
    Column::of("p99 us", "latency_us.p99").spread(),
    Column::of("timer calls per request", "timer_calls_per_request"),
];
const DELAYED: &[Column] = &[
    Column::of("CPU us per request", "cpu").by(1e3).spread(),
    Column::of("requests per s", "per_s").spread(),
    Column::of("beyond the delay: p50 us", "beyond_us.p50"),
    Column::of("p99 us", "beyond_us.p99").spread(),
];
const IN_TASKS: &[Column] = &[
    Column::of("wall ns", "wall").spread(),
    Column::of("CPU ns", "cpu").spread(),
    Column::of("over *none*", "cpu").over_floor(),
    Column::of("million per s", "per_s").by(1e6),
];
const IN_TASKS_THAT_WAIT: &[Column] = &[
    Column::of("CPU ns per sleep", "cpu").spread(),
    Column::of("late p50 us", "p50"),
    Column::of("p99 us", "p99").spread(),
    Column::of("sleeps per s", "per_s"),
];
const STALL: &[Column] = &[
    Column::of("longest call, us", "call_max_us").spread(),
    Column::of("of those without a pause", "undisturbed_max_us").spread(),
    Column::of("p99.9 us", "call_p999_us"),
    Column::of("the last timer is late by, ms", "last_late_ms"),
];
const SERVICE: &[Column] = &[
    Column::of("CPU ns per call", "cpu").spread(),
    Column::of("million calls per s", "per_s").by(1e6).spread(),
    Column::of("late p50 us", "p50"),
    Column::of("p99 us", "p99"),
];
const BY_CORES: &[Column] = &[
    Column::of("CPU ns, 1 thread", "cpu").on(1).spread(),
    Column::of("2", "cpu").on(2),
    Column::of("4", "cpu").on(4),
    Column::of("8", "cpu").on(8),
    Column::of("16", "cpu").on(16).spread(),
    Column::of("wall ns, 1 thread", "wall").on(1),
    Column::of("16", "wall").on(16).spread(),
];
const BY_WORKERS: &[Key] = &[Key::Threads("workers"), Key::Contender];
const BY_CROWD: &[Key] = &[Key::Threads("threads"), Key::Contender];
const ARRIVALS: &[Key] = &[Key::Variant("per s"), Key::Contender];

const TABLES: &[Table] = &[
    Table::of("cancel-heavy", CONTENDER, BY_THREADS),
    Table::of("reset", CONTENDER, BY_THREADS),
    Table::of("reset-earlier", CONTENDER, BY_THREADS),
    Table::of(
        "handoff",
        CONTENDER,
        &[
            Column::of("CPU ns, both threads", "cpu").spread(),
            Column::of("wall ns", "wall"),
            Column::of("memory grew by, MB", "rss_growth_mb"),
        ],
    ),
    Table::of("service", BY_CROWD, SERVICE),
    Table::of("fire-all", CONTENDER, FIRING),
    Table::of("fire-all-100us", CONTENDER, FIRING),
    Table::of(
        "steady",
        CONTENDER,
        &[
            Column::of("CPU ns per timer", "cpu").spread(),
            Column::of("one schedule, wall ns", "wall"),
            Column::of("CPU ns of all but the scheduling thread", "others_cpu_ns_per_op"),
        ],
    ),
    Table::of("single", CONTENDER, WAITING),
    Table::of(
        "wakeups",
        CONTENDER,
        &[
            Column::of("wake-ups per s", "wake_ups_per_s").spread(),
            Column::of("CPU ms per s of other threads", "others_cpu_ms_per_s").spread(),
        ],
    ),
    Table::of("http-closed", BY_WORKERS, HTTP),
    Table::of("http-open", BY_WORKERS, HTTP),
    Table::of("async-timeout", BY_WORKERS, IN_TASKS),
    Table::of("async-idle", BY_WORKERS, IN_TASKS),
    Table::of("async-short", BY_WORKERS, IN_TASKS_THAT_WAIT),
    Table::of("async-lone", CONTENDER, IN_TASKS_THAT_WAIT),
    Table::of(
        "scale",
        CONTENDER,
        &[
            Column::of("CPU ns, 1 k pending", "cpu").at(1_000),
            Column::of("100 k", "cpu").at(100_000),
            Column::of("1 M", "cpu").at(1_000_000),
            Column::of("10 M", "cpu").at(10_000_000),
            Column::of("bytes per timer", "bytes_per_timer").at(1_000_000),
            Column::of("of these the caller's", "slot_bytes").at(1_000_000),
        ],
    ),
    Table::of(
        "burst",
        CONTENDER,
        &[
            Column::of("late p50 us", "p50").spread(),
            Column::of("p99 us", "p99").spread(),
            Column::of("max us", "late_us.max"),
            Column::of("the million, ms", "all_fired_ms"),
        ],
    ),
    Table::of(
        "precise",
        CONTENDER,
        &[
            Column::of("late p50 us", "p50").spread(),
            Column::of("p99 us", "p99").spread(),
            Column::of("cores", "cores").spread(),
        ],
    ),
    Table::of("stall", CONTENDER, STALL),
    Table::of(
        "idle",
        CONTENDER,
        &[
            Column::of("CPU ms in 5 s", "cpu_ms"),
            Column::of("context switches", "switches"),
            Column::of("without timers: CPU ms", "baseline_cpu_ms"),
            Column::of("context switches", "baseline_switches"),
        ],
    ),
    Table::of(
        "paced",
        BY_CROWD,
        &[
            Column::of("CPU ns per pair", "cpu").spread(),
            Column::of("without the load's own", "timers_cpu_ns_per_op").spread(),
        ],
    ),
    Table::of(
        "wheel",
        CONTENDER,
        &[
            Column::of("insert ns", "insert_ns").spread(),
            Column::of("cancel + insert", "pair_ns"),
            Column::of("expire, tick by tick", "expire_by_tick_ns"),
            Column::of("by next expiration", "expire_by_next_ns"),
        ],
    ),
    Table::of("purgatory-short", ARRIVALS, PURGATORY),
    Table::of("purgatory-long", ARRIVALS, PURGATORY),
    Table::of("cores-pair", CONTENDER, BY_CORES),
    Table::of("cores-reset", CONTENDER, BY_CORES),
    Table::of("cores-service", BY_CROWD, SERVICE),
    Table::of("cores-fire-all", BY_CROWD, FIRING),
    Table::of("cores-stall", CONTENDER, STALL),
    Table::of("cores-single", CONTENDER, WAITING),
    Table::of("cores-http", BY_WORKERS, HTTP),
    Table::of("cores-http-delay", CONTENDER, DELAYED),
    Table::of("cores-http-delay-open", CONTENDER, DELAYED),
    Table::of("cores-timeout", BY_WORKERS, IN_TASKS),
    Table::of("cores-idle", BY_WORKERS, IN_TASKS),
    Table::of("cores-short", BY_WORKERS, IN_TASKS_THAT_WAIT),
];

/// The table of that name, a line each.
pub(super) fn table(book: &Book, name: &str) -> Result<String, String> {
    match name {
        "machines" => return Ok(machines(book)),
        "in short" => return Ok(in_short(book)),
        _ => {}
    }
    let table = TABLES.iter().find(|table| table.name == name);
    let table = table.ok_or_else(|| format!("no table is called `{name}`"))?;
    Ok(match book.part(table.part) {
        Some(part) => lines(&table.rows(part)),
        None => format!("Not measured yet: `rivals --perf --only {}`.\n", table.part),
    })
}

/// What was measured where; parts that share everything share a row.
fn machines(book: &Book) -> String {
    let mut rows = vec![
        ["measured", "commit", "date", "machine", "runs", "load before"]
            .map(str::to_owned)
            .to_vec(),
    ];
    let mut groups: Vec<Vec<&Kept>> = Vec::new();
    for part in parts::ALL.iter().filter_map(|part| book.part(part.name)) {
        let same = groups
            .iter_mut()
            .find(|group| group[0].host == part.host && group[0].counts() == part.counts());
        match same {
            Some(group) => group.push(part),
            None => groups.push(vec![part]),
        }
    }
    let most = groups.iter().map(Vec::len).max().unwrap_or(0);
    for group in groups {
        let names: Vec<_> = group.iter().map(|part| format!("`{}`", part.name)).collect();
        let is_most = group.len() == most && most > 3;
        let names = if is_most { "all but what follows".to_owned() } else { names.join(", ") };
        let host = &group[0].host;
        let loads = group.iter().flat_map(|part| &part.runs);
        let loads = Sample::new(loads.filter_map(|run| run.number("load_before")).collect());
        rows.push(vec![
            names,
            format!("`{}`", host.commit),
            host.date.clone(),
            format!("{} x {}, {}, rustc {}", host.cpus, host.cpu, host.kernel, host.rustc),
            match group[0].counts() {
                (least, most) if least < most => format!("{least} to {most}"),
                (runs, _) => runs.to_string(),
            },
            spread(&loads),
        ]);
    }
    if rows.len() == 2 {
        "all".clone_into(&mut rows[1][0]);
    }
    lines(&rows)
}

/// tickless beside what no timer does without, and beside tokio's two: heading, part, threads,
/// floor, and tokio's. The alternative one is that of tasks; before it was measured, the table has
/// no columns for it.
fn in_short(book: &Book) -> String {
    const ROWS: &[(&str, &str, usize, &str, &str)] = &[
        ("schedule + cancel", "cancel-heavy", 1, "floor-tsc", "tokio-threads"),
        ("on two threads", "cancel-heavy", 2, "floor-tsc", "tokio-threads"),
        ("reset", "reset", 1, "floor-tsc", "tokio-threads"),
        ("on two threads", "reset", 2, "floor-tsc", "tokio-threads"),
        ("reset to an earlier time", "reset-earlier", 1, "floor-tsc", "tokio-threads"),
        ("on two threads", "reset-earlier", 2, "floor-tsc", "tokio-threads"),
        ("a call of a busy server (`service`)", "service", 1, "", "tokio-threads"),
        ("on two threads", "service", 2, "", "tokio-threads"),
        ("on four threads", "service", 4, "", "tokio-threads"),
        ("a timer that fires (`fire-all`)", "fire-all", 1, "floor-calendar", "tokio"),
        ("the same with ticks of 100 us", "fire-all-100us", 1, "floor-calendar", ""),
        ("as many that fire as start (`steady`)", "steady", 1, "floor-calendar", "tokio"),
    ];
    let sample = |part: &Kept, contender, threads| {
        Sample::new(part.of(contender, threads).filter_map(|run| run.number(CPU)).collect())
    };
    let ratio = |above: &Sample<f64>, below: &Sample<f64>| match above.len() * below.len() {
        0 => String::new(),
        _ => format!("{:.2}", above.median() / below.median()),
    };
    let cell = |sample: &Sample<f64>| match sample.len() {
        0 => String::new(),
        _ => spread(sample),
    };
    let is_in = |name: &&str| {
        ROWS.iter()
            .any(|row| book.part(row.1).is_some_and(|part| part.of(name, row.2).next().is_some()))
    };
    let alternative = Some(ALTERNATIVE).filter(is_in);
    let mut heading = vec!["CPU ns", "tickless", "floor", "tokio"];
    heading.extend(alternative);
    heading.extend(["over the floor", "tokio / tickless"]);
    let mut rows = vec![heading.into_iter().map(str::to_owned).collect::<Vec<_>>()];
    rows[0].extend(alternative.map(|name| format!("{name} / tickless")));
    for &(what, part, threads, floor, tokio) in ROWS {
        let Some(kept) = book.part(part) else { continue };
        let of = |contender| sample(kept, contender, threads);
        let (ours, floor, tokio) = (of("tickless"), of(floor), of(tokio));
        let alternative = alternative.map(of);
        let samples = [&ours, &floor, &tokio].into_iter().chain(&alternative).map(cell);
        let ratios = [ratio(&ours, &floor), ratio(&tokio, &ours)];
        let ratios = ratios.into_iter().chain(alternative.as_ref().map(|alt| ratio(alt, &ours)));
        rows.push([what.to_owned()].into_iter().chain(samples).chain(ratios).collect());
    }
    lines(&rows)
}

const ALTERNATIVE: &str = "tokio-alt";
const CPU: &str = "cpu_ns_per_op";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Host;
    use crate::record::Record;
    use serde_json::json;

    fn run(contender: &str, threads: usize, ns: f64) -> Record {
        let extra = json!({"variant": 0, "load_before": 0.5});
        Record {
            contender: contender.to_owned(),
            workload: "reset".to_owned(),
            threads,
            n: 1,
            ns_per_op: ns,
            cpu_ns_per_op: 2.0 * ns,
            extra: extra.as_object().unwrap().clone(),
        }
    }

    fn book(names: &[&str]) -> Book {
        let runs = vec![
            run("tokio", 1, 30.0),
            run("tickless", 1, 10.0),
            run("tickless", 2, 9.0),
            run("tickless", 1, 20.0),
            run("tickless", 1, 90.0),
        ];
        let part = |name: &&str| Kept {
            name: (*name).to_owned(),
            host: Host { commit: "abc".to_owned(), ..Host::default() },
            runs: runs.clone(),
        };
        Book { parts: names.iter().map(part).collect() }
    }

    #[test]
    fn a_row_has_the_median_of_each_column_and_its_spread() {
        let table = table(&book(&["reset"]), "reset").unwrap();
        let lines: Vec<_> = table.lines().collect();
        assert_eq!(lines[1], "|---|---|---|---|---|");
        assert_eq!(lines[2], "| **tickless** | 40.0 (20.0..180) | 18.0 | 20.0 | 9.0 |");
        assert_eq!(lines[3], "| tokio | 60.0 | - | 30.0 | - |");
    }

    #[test]
    fn threads_can_have_rows_of_their_own() {
        let table = table(&book(&["service"]), "service").unwrap();
        let lines: Vec<_> = table.lines().skip(2).map(|line| &line[..18]).collect();
        assert_eq!(
            lines,
            ["| 1 | **tickless**", "| 1 | tokio | 60.0", "| 2 | **tickless**"]
                .map(|line| &line[..18.min(line.len())])
        );
    }

    #[test]
    fn parts_of_one_machine_and_commit_share_a_row() {
        let mut book = book(&["reset", "service", "steady", "handoff", "single"]);
        let all = table(&book, "machines").unwrap();
        assert!(all.lines().nth(2).unwrap().starts_with("| all | `abc` |"), "{all}");
        book.parts[4].host.commit = "def".to_owned();
        let two = table(&book, "machines").unwrap();
        assert!(two.contains("| all but what follows | `abc` |"), "{two}");
        assert!(two.contains("| `single` | `def` |"), "{two}");
    }

    #[test]
    fn a_table_without_a_measurement_says_so() {
        assert!(table(&book(&[]), "reset").unwrap().contains("--only reset"));
        assert!(table(&book(&[]), "rest").unwrap_err().contains("no table"));
        let in_short = table(&book(&["reset"]), "in short").unwrap();
        assert_eq!(in_short.lines().count(), 4, "{in_short}");
    }

    #[test]
    fn a_share_is_what_lies_over_none_on_as_many_workers() {
        let mut book = book(&["async-timeout"]);
        let floor = [run("none", 1, 4.0), run("none", 2, 1.0), run("none", 1, 2.0)];
        book.parts[0].runs.extend(floor);
        let table = table(&book, "async-timeout").unwrap();
        let rows = table.lines().filter_map(|line| line.split(" | ").nth(4));
        assert_eq!(Vec::from_iter(rows), ["over *none*", "34.0", "54.0", "-", "16.0", "-"]);
    }

    #[test]
    fn the_alternative_timer_has_columns_once_it_was_measured() {
        let mut book = book(&["reset"]);
        let without = table(&book, "in short").unwrap();
        assert!(!without.contains(ALTERNATIVE), "{without}");
        book.parts[0].runs.push(run(ALTERNATIVE, 1, 40.0));
        let with = table(&book, "in short").unwrap();
        let lines: Vec<_> = with.lines().collect();
        assert!(lines[0].ends_with("| tokio / tickless | tokio-alt / tickless |"), "{with}");
        assert!(lines[2].ends_with("| 80.0 |  |  | 2.00 |"), "{with}");
        let columns = |line: &&str| line.matches('|').count();
        assert!(lines.iter().all(|line| columns(line) == columns(&lines[0])), "{with}");
    }

    #[test]
    fn each_table_shows_a_part() {
        for table in TABLES {
            assert!(parts::Part::named(table.part).is_ok(), "{}", table.name);
        }
    }
}
