//! The five fields of a schedule, and the words that stand for some of them.
//! Source: <https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/#schedule-syntax>; texts as the parser's that
//! Kubernetes uses.

use k8s_openapi::api::batch::v1::CronJobSpec;
use pilothouse_api::field::{ErrorList, FieldError, Path};

/// Bounds of a field, and names for its values.
struct Field {
    min: u32,
    max: u32,
    names: &'static [(&'static str, u32)],
}

const MONTHS: [(&str, u32); 12] = [
    ("jan", 1),
    ("feb", 2),
    ("mar", 3),
    ("apr", 4),
    ("may", 5),
    ("jun", 6),
    ("jul", 7),
    ("aug", 8),
    ("sep", 9),
    ("oct", 10),
    ("nov", 11),
    ("dec", 12),
];
const DAYS: [(&str, u32); 7] = [
    ("sun", 0),
    ("mon", 1),
    ("tue", 2),
    ("wed", 3),
    ("thu", 4),
    ("fri", 5),
    ("sat", 6),
];
/// Minute, hour, day of the month, month, day of the week.
const FIELDS: [Field; 5] = [
    Field {
        min: 0,
        max: 59,
        names: &[],
    },
    Field {
        min: 0,
        max: 23,
        names: &[],
    },
    Field {
        min: 1,
        max: 31,
        names: &[],
    },
    Field {
        min: 1,
        max: 12,
        names: &MONTHS,
    },
    Field {
        min: 0,
        max: 6,
        names: &DAYS,
    },
];
const DESCRIPTORS: [&str; 7] = [
    "@yearly",
    "@annually",
    "@monthly",
    "@weekly",
    "@daily",
    "@midnight",
    "@hourly",
];
const EVERY: &str = "@every ";

/// Whether the schedule names a time zone itself.
pub(super) fn has_zone(schedule: &str) -> bool {
    schedule.contains("TZ")
}

/// A time zone belongs into its own field; schedules that had one before may keep it.
pub(super) fn validate_zone(
    errors: &mut ErrorList,
    path: &Path,
    spec: &CronJobSpec,
    had_one: bool,
) {
    let why = match (has_zone(&spec.schedule), had_one, &spec.time_zone) {
        (true, true, Some(_)) => "cannot use both timeZone field and TZ or CRON_TZ in schedule",
        (true, false, _) => "cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
        _ => return,
    };
    let schedule = spec.schedule.as_str();
    errors.push(FieldError::invalid(&path.child("schedule"), schedule, why));
}

/// What is wrong with a schedule, the first thing only.
pub(super) fn parse(schedule: &str) -> Result<(), String> {
    let mut schedule = schedule;
    if let Some(zoned) = ["TZ=", "CRON_TZ="]
        .iter()
        .find_map(|prefix| schedule.strip_prefix(prefix))
    {
        let (zone, rest) = zoned.split_once(' ').unwrap_or((zoned, ""));
        if jiff::tz::TimeZone::get(zone).is_err() {
            return Err(format!(
                "provided bad location {zone}: unknown time zone {zone}"
            ));
        }
        schedule = rest.trim();
    }
    if schedule.starts_with('@') {
        return descriptor(schedule);
    }
    let parts: Vec<&str> = schedule.split_whitespace().collect();
    if parts.len() != FIELDS.len() {
        return Err(format!(
            "expected exactly 5 fields, found {}: [{}]",
            parts.len(),
            parts.join(" ")
        ));
    }
    let fields = parts.iter().zip(&FIELDS);
    fields
        .flat_map(|(text, field)| {
            text.split(',')
                .filter(|t| !t.is_empty())
                .map(move |t| (t, field))
        })
        .try_for_each(|(text, field)| range(text, field))
}

fn descriptor(schedule: &str) -> Result<(), String> {
    if DESCRIPTORS.contains(&schedule) {
        return Ok(());
    }
    match schedule.strip_prefix(EVERY) {
        None => Err(format!("unrecognized descriptor: {schedule}")),
        Some(duration) if is_duration(duration) => Ok(()),
        Some(duration) => Err(format!(
            "failed to parse duration {schedule}: time: invalid duration {duration:?}"
        )),
    }
}

/// `1h30m`, `1.5s`, `-2ms`, `0`.
fn is_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let number = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (amount, unit) = rest.split_at(number);
        let is_number = amount.bytes().any(|b| b.is_ascii_digit())
            && amount.bytes().filter(|b| *b == b'.').count() <= 1;
        let units = ["ns", "us", "µs", "μs", "ms", "s", "m", "h"];
        let Some(unit) = units.iter().find(|name| {
            // the longest name that fits: "ms" is no minute
            unit.strip_prefix(**name)
                .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphabetic()))
        }) else {
            return false;
        };
        if !is_number {
            return false;
        }
        rest = &rest[number + unit.len()..];
    }
    true
}

/// `*`, `?`, a value or `from-to`, each also with `/step`.
fn range(text: &str, field: &Field) -> Result<(), String> {
    let by_step: Vec<&str> = text.split('/').collect();
    let limits: Vec<&str> = by_step[0].split('-').collect();
    let single = limits.len() == 1;
    let (start, mut end) = match limits.as_slice() {
        ["*" | "?", ..] => (field.min, field.max),
        [one] => {
            let value = value(one, field)?;
            (value, value)
        }
        [from, to] => (value(from, field)?, value(to, field)?),
        _ => return Err(format!("too many hyphens: {text}")),
    };
    match by_step.as_slice() {
        [_] => {}
        [_, step] => {
            let step = number(step)?;
            if single {
                end = field.max;
            }
            if step == 0 {
                return Err(format!("step of range should be a positive number: {text}"));
            }
        }
        _ => return Err(format!("too many slashes: {text}")),
    }
    let (min, max) = (field.min, field.max);
    match () {
        () if start < min => Err(format!(
            "beginning of range ({start}) below minimum ({min}): {text}"
        )),
        () if end > max => Err(format!(
            "end of range ({end}) above maximum ({max}): {text}"
        )),
        () if start > end => Err(format!(
            "beginning of range ({start}) beyond end of range ({end}): {text}"
        )),
        () => Ok(()),
    }
}

fn value(text: &str, field: &Field) -> Result<u32, String> {
    let lower = text.to_lowercase();
    match field.names.iter().find(|(name, _)| *name == lower) {
        Some((_, value)) => Ok(*value),
        None => number(text),
    }
}

fn number(text: &str) -> Result<u32, String> {
    match text.parse::<i64>() {
        Ok(number) if number < 0 => Err(format!("negative number ({number}) not allowed: {text}")),
        Ok(number) => Ok(u32::try_from(number).unwrap_or(u32::MAX)),
        Err(_) => Err(format!(
            "failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_read_or_refused() {
        for (schedule, expected) in [
            ("*/5 * * * *", Ok(())),
            ("0 8-18/2,22 1,15 jan-MAR mon-fri", Ok(())),
            ("? ? ? ? ?", Ok(())),
            ("@hourly", Ok(())),
            ("@every 1h30m", Ok(())),
            ("TZ=Europe/Paris 0 0 * * *", Ok(())),
            ("", Err("expected exactly 5 fields, found 0: []")),
            (
                "* * * *",
                Err("expected exactly 5 fields, found 4: [* * * *]"),
            ),
            (
                "60 * * * *",
                Err("end of range (60) above maximum (59): 60"),
            ),
            (
                "* * 0 * *",
                Err("beginning of range (0) below minimum (1): 0"),
            ),
            (
                "5-1 * * * *",
                Err("beginning of range (5) beyond end of range (1): 5-1"),
            ),
            (
                "*/0 * * * *",
                Err("step of range should be a positive number: */0"),
            ),
            ("1-2-3 * * * *", Err("too many hyphens: 1-2-3")),
            ("*/1/2 * * * *", Err("too many slashes: */1/2")),
            (
                "x * * * *",
                Err("failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"),
            ),
            ("@often", Err("unrecognized descriptor: @often")),
            (
                "@every soon",
                Err("failed to parse duration @every soon: time: invalid duration \"soon\""),
            ),
            (
                "TZ=Moon/Sea 0 0 * * *",
                Err("provided bad location Moon/Sea: unknown time zone Moon/Sea"),
            ),
        ] {
            assert_eq!(
                parse(schedule),
                expected.map_err(str::to_owned),
                "{schedule}"
            );
        }
    }

    #[test]
    fn durations() {
        for (text, expected) in [
            ("1h", true),
            ("90s", true),
            ("1.5h", true),
            ("1ms", true),
            ("0", true),
            ("-1s", true),
            ("", false),
            ("1", false),
            ("h", false),
            ("1x", false),
        ] {
            assert_eq!(is_duration(text), expected, "{text}");
        }
    }
}
