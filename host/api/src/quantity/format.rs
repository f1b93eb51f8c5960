//! The canonical form: no fraction, the largest suffix, no sign but `-`.

use std::fmt;

use super::{Format, Quantity};

/// Powers of a thousand from nano to exa.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
/// Powers of 1024.
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.format, self.whole()) {
            _ if self.is_zero() => f.write_str("0"),
            (Format::BinarySi, Some(whole)) if whole.unsigned_abs() >= 1024 => binary(f, whole),
            (Format::DecimalExponent, _) => self.decimal(f, true),
            // small or fractional binary amounts are written in decimals rather than rounded
            _ => self.decimal(f, false),
        }
    }
}

impl Quantity {
    /// The value as a whole number, if it is one and fits.
    fn whole(&self) -> Option<i128> {
        let power = u32::try_from(self.exponent).ok()?;
        10i128.checked_pow(power)?.checked_mul(self.mantissa)
    }

    /// With an exponent that is a multiple of three.
    fn decimal(&self, f: &mut fmt::Formatter<'_>, as_exponent: bool) -> fmt::Result {
        let zeros = self.exponent.rem_euclid(3);
        let exponent = self.exponent - zeros;
        let zeros = &"00"[..zeros as usize]; // 0, 1 or 2
        write!(f, "{}{zeros}", self.mantissa)?;
        let suffix = usize::try_from(exponent / 3 + 3)
            .ok()
            .and_then(|at| DECIMAL.get(at));
        match (as_exponent, suffix) {
            (false, Some(suffix)) => f.write_str(suffix),
            _ if exponent == 0 => Ok(()),
            _ => write!(f, "e{exponent}"),
        }
    }
}

fn binary(f: &mut fmt::Formatter<'_>, mut whole: i128) -> fmt::Result {
    let mut at = 0;
    while whole % 1024 == 0 && at + 1 < BINARY.len() {
        whole /= 1024;
        at += 1;
    }
    write!(f, "{whole}{}", BINARY[at])
}
