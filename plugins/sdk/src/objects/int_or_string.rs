//! `intstr.IntOrString`: a number, or a percentage of something.

use serde::{Deserialize, Serialize};

/// A plain number or text such as `25%` or a port's name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum IntOrString {
    Int(i32),
    String(String),
}

impl IntOrString {
    /// The number, or the percentage of `total`, rounded up or down. None if the text is no percentage.
    pub fn scaled(&self, total: i32, round_up: bool) -> Option<i32> {
        match self {
            Self::Int(number) => Some(*number),
            Self::String(text) => {
                let percent: i64 = text.strip_suffix('%')?.parse::<i32>().ok()?.into();
                let product = percent * i64::from(total);
                let scaled = if round_up {
                    -(-product).div_euclid(100)
                } else {
                    product.div_euclid(100)
                };
                i32::try_from(scaled).ok()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_round_as_asked() {
        let percent = |text: &str| IntOrString::String(text.into());
        let cases = [
            (percent("25%"), 10, true, Some(3)),
            (percent("25%"), 10, false, Some(2)),
            (percent("25%"), 4, true, Some(1)),
            (percent("0%"), 7, true, Some(0)),
            (percent("1%"), 1, true, Some(1)),
            (percent("1%"), 1, false, Some(0)),
            (percent("100%"), 7, false, Some(7)),
            (percent("110%"), 10, true, Some(11)),
            (IntOrString::Int(3), 10, true, Some(3)),
            (percent("http"), 10, true, None),
            (percent("%"), 10, true, None),
        ];
        for (value, total, round_up, expected) in cases {
            assert_eq!(
                value.scaled(total, round_up),
                expected,
                "{value:?} of {total}, up: {round_up}"
            );
        }
    }
}
