//! Names of time zones. Source: <https://www.iana.org/time-zones>

const MAX_PART: usize = 14;

/// What is wrong with a name.
pub(super) fn complaints(zone: &str) -> Vec<String> {
    if zone.is_empty() {
        return vec!["timeZone must be nil or non-empty string".to_owned()];
    }
    if !zone.split('/').all(is_part) {
        return vec![unknown(zone)];
    }
    let mut complaints = Vec::new();
    let local = zone.eq_ignore_ascii_case("local");
    if local {
        complaints.push(
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
                .to_owned(),
        );
    } else if jiff::tz::TimeZone::get(zone).is_err() {
        complaints.push(unknown(zone));
    }
    complaints
}

fn unknown(zone: &str) -> String {
    format!("unknown time zone {zone}")
}

fn is_part(part: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b".-_+".contains(&b);
    !matches!(part, "." | "..")
        && !part.starts_with('-')
        && (1..=MAX_PART).contains(&part.len())
        && part.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (zone, expected) in [
            ("Europe/Paris", vec![]),
            ("UTC", vec![]),
            ("", vec!["timeZone must be nil or non-empty string"]),
            ("Moon/Sea", vec!["unknown time zone Moon/Sea"]),
            ("../x", vec!["unknown time zone ../x"]),
            ("Europe//Paris", vec!["unknown time zone Europe//Paris"]),
            (
                "local",
                vec![
                    "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones",
                ],
            ),
        ] {
            assert_eq!(complaints(zone), expected, "{zone}");
        }
    }
}
