//! A figure in prose: `NUMBER PART THREADS CONTENDER`, where each word may be two with a slash
//! between them, for a ratio. `PART@VARIANT` picks one of several variants; a last word `spread`
//! adds the least and the most, `runs` gives the number of runs.

use crate::book::{Book, Kept};
use crate::sample::{Sample, short};

/// The figure.
pub(super) fn quote(book: &Book, words: &str) -> Result<String, String> {
    let wrong = || format!("`{words}` names no figure");
    let split: Vec<_> = words.split_whitespace().collect();
    let (term, manner) = match split[..] {
        [number, part, threads, contender] => ([number, part, threads, contender], ""),
        [number, part, threads, contender, manner @ ("spread" | "runs")] => {
            ([number, part, threads, contender], manner)
        }
        _ => return Err(wrong()),
    };
    let side = |nth: usize| term.map(|word| word.split('/').nth(nth).unwrap_or(word));
    let above = sample(book, side(0)).ok_or_else(wrong)?;
    if term.iter().any(|word| word.contains('/')) {
        let below = sample(book, term.map(|word| word.rsplit('/').next().unwrap_or(word)));
        let ratio = above.median() / below.ok_or_else(wrong)?.median();
        return Ok(if ratio < 9.95 { format!("{ratio:.2}") } else { short(ratio) });
    }
    Ok(match manner {
        "runs" => above.len().to_string(),
        "spread" => spread(&above),
        _ => short(above.median()),
    })
}

/// The median, with the least and the most where there are several; `-` where there is none.
pub(super) fn spread(sample: &Sample<f64>) -> String {
    if sample.len() == 0 {
        return "-".to_owned();
    }
    let middle = short(sample.median());
    if sample.len() < 2 {
        return middle;
    }
    format!("{middle} ({}..{})", short(sample.min()), short(sample.max()))
}

/// The name of a number in a record.
pub(super) fn full_name(number: &str) -> &str {
    match number {
        "cpu" => "cpu_ns_per_op",
        "wall" => "ns_per_op",
        "p50" => "late_us.p50",
        "p99" => "late_us.p99",
        number => number,
    }
}

fn sample(book: &Book, [number, part, threads, contender]: [&str; 4]) -> Option<Sample<f64>> {
    let (name, variant) = part.split_once('@').map_or((part, None), |(p, v)| (p, Some(v)));
    let part: &Kept = book.part(name)?;
    let variant: Option<f64> = variant.map(str::parse).transpose().ok()?;
    let runs = part.of(contender, threads.parse().ok()?);
    let runs = runs.filter(|run| variant.is_none() || run.number("variant") == variant);
    let values: Vec<_> = runs.filter_map(|run| run.number(full_name(number))).collect();
    (!values.is_empty()).then(|| Sample::new(values))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Host;
    use crate::record::Record;
    use serde_json::json;

    fn book() -> Book {
        let run = |contender: &str, threads, ns: f64| Record {
            contender: contender.to_owned(),
            workload: "reset".to_owned(),
            threads,
            n: 1,
            ns_per_op: ns,
            cpu_ns_per_op: 2.0 * ns,
            extra: json!({"variant": 7, "late_us": {"p99": 8.0}}).as_object().unwrap().clone(),
        };
        let runs = vec![run("a", 1, 10.0), run("a", 1, 30.0), run("a", 1, 11.0), run("b", 2, 44.0)];
        let part = Kept { name: "reset".to_owned(), host: Host::default(), runs };
        Book { parts: vec![part] }
    }

    #[test]
    fn a_figure_is_a_median_a_ratio_a_spread_or_a_count() {
        let quote = |words| quote(&book(), words);
        assert_eq!(quote("wall reset 1 a").unwrap(), "11.0");
        assert_eq!(quote("cpu reset 1 a").unwrap(), "22.0");
        assert_eq!(quote("wall reset 1 a spread").unwrap(), "11.0 (10.0..30.0)");
        assert_eq!(quote("wall reset 1 a runs").unwrap(), "3");
        assert_eq!(quote("p99 reset@7 2 b").unwrap(), "8.0");
        assert_eq!(quote("wall reset 2/1 b/a").unwrap(), "4.00");
        assert_eq!(quote("cpu/wall reset 2 b").unwrap(), "2.00");
    }

    #[test]
    fn what_names_nothing_is_refused() {
        for words in [
            "",
            "wall reset 1",
            "wall reset 1 c",
            "wall rest 1 a",
            "x reset 1 a",
            "p99 reset@8 2 b",
            "wall reset x a",
            "wall reset 1 a so",
            "wall reset 1 a/c",
        ] {
            assert!(quote(&book(), words).unwrap_err().contains("names no figure"), "{words}");
        }
    }
}
