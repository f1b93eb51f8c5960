//! Kubernetes' timestamps: RFC 3339 in UTC, whole seconds for `metav1.Time`, six digits for `metav1.MicroTime`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

/// A moment, as milliseconds since the Unix epoch. Written with whole seconds, as `metav1.Time` is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(u64);

/// A moment that is written with microseconds, as `metav1.MicroTime` is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct MicroTime(pub Time);

impl Time {
    /// From milliseconds since the Unix epoch, as `pilothouse:host/clock` gives them.
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms)
    }

    /// Milliseconds since the Unix epoch.
    pub const fn ms(self) -> u64 {
        self.0
    }

    /// The same moment without the fraction of a second, which is what comes back from the server.
    pub fn whole_seconds(self) -> Self {
        Self(self.0 - self.0 % 1000)
    }

    /// So many seconds later; negative counts as zero.
    pub fn plus_seconds(self, seconds: i64) -> Self {
        Self(
            self.0
                .saturating_add(u64::try_from(seconds).unwrap_or(0).saturating_mul(1000)),
        )
    }

    /// Milliseconds from `earlier` to here, 0 if it is not earlier.
    pub fn ms_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    fn system_time(self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.0)
    }

    fn parse(text: &str) -> Result<Self, humantime::TimestampError> {
        let time = humantime::parse_rfc3339(text)?;
        let since_epoch = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Self(
            u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX),
        ))
    }
}

impl std::fmt::Display for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        humantime::format_rfc3339_seconds(self.system_time()).fmt(f)
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(|error| D::Error::custom(format_args!("time {text:?}: {error}")))
    }
}

impl Serialize for MicroTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&humantime::format_rfc3339_micros(self.0.system_time()))
    }
}

impl<'de> Deserialize<'de> for MicroTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Time::deserialize(deserializer).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read_and_each_is_written_its_way() {
        let time: Time = serde_json::from_str(r#""2026-11-30T21:08:29.123456Z""#).unwrap();
        assert_eq!(time.ms(), 1_796_072_909_123);
        assert_eq!(
            serde_json::to_string(&time).unwrap(),
            r#""2026-11-30T21:08:29Z""#
        );
        assert_eq!(
            serde_json::to_string(&MicroTime(time)).unwrap(),
            r#""2026-11-30T21:08:29.123000Z""#
        );
        assert!(serde_json::from_str::<Time>(r#""yesterday""#).is_err());
    }

    #[test]
    fn arithmetic_saturates() {
        let time = Time::from_ms(5_400);
        assert_eq!(time.whole_seconds(), Time::from_ms(5_000));
        assert_eq!(time.plus_seconds(-3), time);
        assert_eq!(time.ms_since(Time::from_ms(9_000)), 0);
    }
}
