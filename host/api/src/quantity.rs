//! Kubernetes quantities: `100m`, `1.5Gi`, `12e6`.
//! Source: <https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/>
//!
//! Invariants: the value is `mantissa × 10^exponent`, exact down to 10⁻⁹; finer amounts were rounded away from zero when
//! read. The mantissa ends in no zero, so equal values have equal parts. The format only says how the value is written.

mod format;
mod parse;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;

pub use parse::QuantityError;

/// The finest exponent of ten that is kept.
const NANO: i32 = -9;

/// How a quantity is written; addition keeps the left one's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// `12M`.
    #[default]
    DecimalSi,
    /// `12Mi`.
    BinarySi,
    /// `12e6`.
    DecimalExponent,
}

/// A fixed-point number with a way of writing. Equality and order look at the number only.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quantity {
    mantissa: i128,
    exponent: i32,
    format: Format,
}

impl Quantity {
    /// Zero.
    pub const ZERO: Self = Self {
        mantissa: 0,
        exponent: 0,
        format: Format::DecimalSi,
    };

    /// Reads a quantity.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        parse::quantity(text)
    }

    /// The text as the API server stores it: in canonical form, and unchanged if it is as good as canonical.
    pub fn canonical(text: &str) -> Result<String, QuantityError> {
        parse::canonical(text)
    }

    /// So many whole units.
    pub fn from_value(value: i64, format: Format) -> Self {
        Self::new(value.into(), 0, format)
    }

    /// So many thousandths.
    pub fn from_milli(value: i64, format: Format) -> Self {
        Self::new(value.into(), -3, format)
    }

    fn new(mantissa: i128, exponent: i32, format: Format) -> Self {
        let mut quantity = Self {
            mantissa,
            exponent,
            format,
        };
        quantity.round_up_to(NANO);
        quantity.normalize();
        quantity
    }

    fn normalize(&mut self) {
        if self.mantissa == 0 {
            self.exponent = 0;
        }
        while self.mantissa != 0 && self.mantissa % 10 == 0 {
            self.mantissa /= 10;
            self.exponent = self.exponent.saturating_add(1);
        }
    }

    /// Rounds away from zero to a multiple of `10^exponent`; returns whether nothing was lost.
    fn round_up_to(&mut self, exponent: i32) -> bool {
        let away = self.mantissa.signum();
        let mut exact = true;
        while self.exponent < exponent && self.mantissa != 0 {
            exact &= self.mantissa % 10 == 0;
            self.mantissa /= 10;
            self.exponent += 1;
        }
        self.exponent = self.exponent.max(exponent);
        if !exact {
            self.mantissa += away;
        }
        exact
    }

    /// How the quantity is written.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Whether it is zero.
    pub fn is_zero(&self) -> bool {
        self.mantissa == 0
    }

    /// Whether it is below zero.
    pub fn is_negative(&self) -> bool {
        self.mantissa < 0
    }

    /// Whole units, rounded away from zero, within the bounds of `i64`.
    pub fn value(&self) -> i64 {
        self.scaled(0)
    }

    /// Thousandths, rounded away from zero, within the bounds of `i64`.
    pub fn milli_value(&self) -> i64 {
        self.scaled(-3)
    }

    fn scaled(&self, exponent: i32) -> i64 {
        let mut rounded = *self;
        rounded.round_up_to(exponent);
        let shift = rounded.exponent.saturating_sub(exponent).unsigned_abs();
        let wide = match rounded.mantissa {
            0 => Some(0),
            mantissa => 10i128
                .checked_pow(shift)
                .and_then(|power| mantissa.checked_mul(power)),
        };
        let bound = if self.is_negative() {
            i64::MIN
        } else {
            i64::MAX
        };
        wide.and_then(|wide| i64::try_from(wide).ok())
            .unwrap_or(bound)
    }

    /// The same exponent for both, as exact as 38 digits allow: the finer one is rounded away from zero if need be.
    fn aligned(mut self, mut other: Self) -> (i128, i128, i32) {
        let (coarse, fine) = match self.exponent >= other.exponent {
            true => (&mut self, &mut other),
            false => (&mut other, &mut self),
        };
        if coarse.mantissa == 0 {
            coarse.exponent = fine.exponent;
        }
        while coarse.exponent > fine.exponent {
            let Some(mantissa) = coarse.mantissa.checked_mul(10) else {
                break;
            };
            coarse.mantissa = mantissa;
            coarse.exponent -= 1;
        }
        let exponent = coarse.exponent;
        fine.round_up_to(exponent);
        (self.mantissa, other.mantissa, exponent)
    }
}

impl std::ops::Neg for Quantity {
    type Output = Self;

    fn neg(self) -> Self {
        Self {
            mantissa: -self.mantissa,
            ..self
        }
    }
}

/// A zero takes the other's format.
impl std::ops::Add for Quantity {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let format = match self.is_zero() {
            true => other.format,
            false => self.format,
        };
        let (a, b, exponent) = self.aligned(other);
        Self::new(a.saturating_add(b), exponent, format)
    }
}

impl std::ops::Sub for Quantity {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl std::ops::AddAssign for Quantity {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl std::ops::SubAssign for Quantity {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl std::iter::Sum for Quantity {
    fn sum<I: Iterator<Item = Self>>(quantities: I) -> Self {
        quantities.fold(Self::ZERO, std::ops::Add::add)
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        (self.mantissa, self.exponent) == (other.mantissa, other.exponent)
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        let signs = self.mantissa.signum().cmp(&other.mantissa.signum());
        if signs.is_ne() || self.mantissa == 0 {
            return signs;
        }
        let size = magnitude(self).cmp(&magnitude(other));
        match self.is_negative() {
            true => size.reverse(),
            false => size,
        }
    }
}

/// Orders sizes without their signs: the decimal order of the first digit, 38 digits from the left, the 39th.
fn magnitude(quantity: &Quantity) -> (i64, u128, u128) {
    let digits = quantity.mantissa.unsigned_abs();
    let count = digits.ilog10();
    let order = i64::from(quantity.exponent) + i64::from(count);
    match 37u32.checked_sub(count) {
        Some(missing) => (order, digits * 10u128.pow(missing), 0),
        None => (order, digits / 10, digits % 10),
    }
}
