//! Sets of completion indexes as texts: `0,2-5,7`.
//! Source: <https://kubernetes.io/docs/concepts/workloads/controllers/job/#completion-mode>

/// How many indexes a text names; they grow, and are below `completions`.
pub(super) fn count(text: &str, completions: i32) -> Result<i32, String> {
    let mut total = 0;
    let mut last = None;
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let (first, end) = interval(part, completions)?;
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(not_growing(last, first));
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

/// The first index that both texts name; parts that cannot be read name none.
pub(super) fn overlap(completed: &str, failed: &str, completions: i32) -> Option<i32> {
    let intervals = |text: &str| -> Vec<(i32, i32)> {
        let parts = text.split(',');
        parts
            .filter_map(|p| interval(p, completions).ok())
            .collect()
    };
    let (completed, failed) = (intervals(completed), intervals(failed));
    let pairs = completed
        .iter()
        .flat_map(|c| failed.iter().map(move |f| (c, f)));
    pairs
        .filter(|(c, f)| c.0 <= f.1 && f.0 <= c.1)
        .map(|(c, f)| c.0.max(f.0))
        .min()
}

fn interval(text: &str, completions: i32) -> Result<(i32, i32), String> {
    let limits: Vec<&str> = text.split('-').collect();
    let index = |text: &str| -> Result<i32, String> {
        let index: i64 = text
            .parse()
            .map_err(|_| format!("cannot convert string to integer for index: {text:?}"))?;
        match i32::try_from(index) {
            Ok(index) if index < completions => Ok(index),
            _ => Err(format!("too large index: {text:?}")),
        }
    };
    match limits.as_slice() {
        [one] => index(one).map(|index| (index, index)),
        [first, last] => {
            let (first, last) = (index(first)?, index(last)?);
            match first < last {
                true => Ok((first, last)),
                false => Err(not_growing(first, last)),
            }
        }
        _ => Err(format!(
            "the fragment {text:?} violates the requirement that an index interval can have at most two parts separated by '-'"
        )),
    }
}

fn not_growing(previous: i32, current: i32) -> String {
    format!("non-increasing order, previous: {previous}, current: {current}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_counted_or_refused() {
        for (text, expected) in [
            ("", Ok(0)),
            ("0", Ok(1)),
            ("0,2-5,7", Ok(6)),
            ("10", Err("too large index: \"10\"")),
            ("3-2", Err("non-increasing order, previous: 3, current: 2")),
            ("3,3", Err("non-increasing order, previous: 3, current: 3")),
            (
                "x",
                Err("cannot convert string to integer for index: \"x\""),
            ),
            (
                "1-2-3",
                Err(
                    "the fragment \"1-2-3\" violates the requirement that an index interval can have at most two parts separated by '-'",
                ),
            ),
        ] {
            assert_eq!(count(text, 10), expected.map_err(str::to_owned), "{text}");
        }
    }

    #[test]
    fn what_completed_has_not_failed() {
        for (completed, failed, expected) in [
            ("0-3", "4-6", None),
            ("0-3,8", "4-6,8-9", Some(8)),
            ("", "1", None),
            ("2-5", "1,4", Some(4)),
        ] {
            assert_eq!(overlap(completed, failed, 10), expected);
        }
    }
}
