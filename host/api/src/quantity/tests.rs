use proptest::prelude::*;

use super::{Format, Quantity, QuantityError};

fn parse(text: &str) -> Quantity {
    Quantity::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn reads_and_writes_the_canonical_form() {
    for (text, written) in [
        ("0", "0"),
        ("0Ki", "0"),
        ("00", "0"),
        ("-0", "0"),
        ("1", "1"),
        ("0.5", "500m"),
        (".5", "500m"),
        ("1.", "1"),
        ("1.G", "1G"),
        ("0.001", "1m"),
        ("1000M", "1G"),
        ("0.001T", "1G"),
        ("1.08", "1080m"),
        ("1080000000n", "1080m"),
        ("50k", "50k"),
        ("12E", "12E"),
        ("1024Mi", "1Gi"),
        ("307200Ki", "300Mi"),
        ("1025024Mi", "1001Gi"),
        ("1536Mi", "1536Mi"),
        ("1.5Gi", "1536Mi"),
        ("100.035Ki", "102435840m"),
        ("0.5Ki", "512"),
        (".001Ki", "1024m"),
        (".000000001Ki", "1024n"),
        (".000000000001Ki", "2n"),
        ("1e3", "1e3"),
        ("1E3", "1e3"),
        (".001e12", "1e9"),
        ("1000e-12", "1e-9"),
        ("0.5e-1", "50e-3"),
        ("1.3E+6", "1300e3"),
        ("9Ei", "9223372036854775807"),
        ("9223372036854775807Ki", "9223372036854775807"),
        ("1000E", "1e21"),
        ("1e100", "10e99"),
        ("-1.5Gi", "-1536Mi"),
        ("+2", "2"),
    ] {
        assert_eq!(parse(text).to_string(), written, "{text}");
    }
}

#[test]
fn rounds_amounts_below_nano_away_from_zero() {
    for (text, nano) in [
        ("3.001n", "4n"),
        ("0.0000000001", "1n"),
        ("0.00000012345", "124n"),
        ("-0.00000012345", "-124n"),
        ("0.9n", "1n"),
        ("1.1E-9", "2e-9"),
        ("1e-20", "1e-9"),
        ("1e-2147483648", "1e-9"),
    ] {
        assert_eq!(parse(text).to_string(), nano, "{text}");
    }
}

#[test]
fn stored_texts_stay_when_they_are_as_good_as_canonical() {
    for (text, stored) in [
        ("1.500", "1.500"),
        ("1.5", "1500m"),
        ("01", "01"),
        ("+5", "+5"),
        ("1E3", "1E3"),
        ("1025Mi", "1025Mi"),
        ("1024Mi", "1Gi"),
        ("128974848", "128974848"),
        ("0.5", "500m"),
        ("5000m", "5"),
        ("0", "0"),
    ] {
        assert_eq!(Quantity::canonical(text).as_deref(), Ok(stored), "{text}");
    }
}

#[test]
fn refuses_what_is_no_quantity() {
    for (text, error) in [
        ("", QuantityError::Format),
        (" 1", QuantityError::Format),
        ("1 ", QuantityError::Format),
        ("1.1.M", QuantityError::Format),
        ("1+1.0M", QuantityError::Format),
        ("aoeu", QuantityError::Format),
        ("0.1mi", QuantityError::Suffix),
        ("1i", QuantityError::Suffix),
        (".5i", QuantityError::Suffix),
        ("-3.01e-", QuantityError::Suffix),
        ("1e99999999999", QuantityError::Suffix),
        (".", QuantityError::Numeric),
        ("m", QuantityError::Numeric),
        (
            "1234567890123456789012345678901234567891",
            QuantityError::Numeric,
        ),
    ] {
        assert_eq!(Quantity::parse(text), Err(error), "{text}");
    }
}

#[test]
fn whole_units_and_thousandths_round_away_from_zero() {
    for (text, value, milli) in [
        ("100m", 1, 100),
        ("-100m", -1, -100),
        ("1001u", 1, 2),
        ("1.5", 2, 1500),
        ("2Gi", 2 << 30, (2 << 30) * 1000),
        ("1e30", i64::MAX, i64::MAX),
        ("-1e30", i64::MIN, i64::MIN),
        ("1e2000000000", i64::MAX, i64::MAX),
    ] {
        let quantity = parse(text);
        assert_eq!(
            (quantity.value(), quantity.milli_value()),
            (value, milli),
            "{text}"
        );
    }
}

#[test]
fn addition_keeps_the_format_of_the_first_that_is_not_zero() {
    let sum = |a: &str, b: &str| (parse(a) + parse(b)).to_string();
    assert_eq!(sum("0", "1Mi"), "1Mi");
    assert_eq!(sum("1Mi", "1k"), "1049576");
    assert_eq!(sum("1k", "1Ki"), "2024");
    assert_eq!(sum("100m", "0.9"), "1");
    assert_eq!(sum("1e20", "1n"), "100000000000000000000000000001e-9");
    assert_eq!((parse("1Gi") - parse("1Gi")).to_string(), "0");
}

/// Tenths of a nano, wide enough to be exact for what the strategies below draw.
fn tenths(digits: i64, power: i32) -> i128 {
    i128::from(digits) * 10i128.pow((power + 10).unsigned_abs())
}

fn nanos_away_from_zero(tenths: i128) -> i128 {
    tenths / 10 + tenths.signum() * i128::from(tenths % 10 != 0)
}

proptest! {
    #[test]
    fn agrees_with_whole_numbers(
        a in any::<i32>(), pa in -10..12i32, b in any::<i32>(), pb in -10..12i32,
    ) {
        let (x, y) = (parse(&format!("{a}e{pa}")), parse(&format!("{b}e{pb}")));
        let (nx, ny) = (
            nanos_away_from_zero(tenths(a.into(), pa)),
            nanos_away_from_zero(tenths(b.into(), pb)),
        );
        prop_assert_eq!(x.cmp(&y), nx.cmp(&ny));
        prop_assert_eq!(x == y, nx == ny);
        prop_assert_eq!(x + y, Quantity::new(nx + ny, -9, Format::DecimalSi));
        prop_assert_eq!(x - y, Quantity::new(nx - ny, -9, Format::DecimalSi));
        let ceil = |unit: i128| nx / unit + nx.signum() * i128::from(nx % unit != 0);
        let bounded = |n: i128| n.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        prop_assert_eq!(x.value(), bounded(ceil(1_000_000_000)));
        prop_assert_eq!(x.milli_value(), bounded(ceil(1_000_000)));
    }

    #[test]
    fn what_is_written_reads_as_the_same(digits in any::<i64>(), fraction in "[0-9]{0,12}", suffix in "(|n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|e3|E-4|e20)") {
        let quantity = parse(&format!("{digits}.{fraction}{suffix}"));
        let written = quantity.to_string();
        prop_assert_eq!(parse(&written), quantity);
        prop_assert_eq!(parse(&written).to_string(), written);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[-+.0-9eEinumkKMGTP ]{0,48}") {
        if let Ok(quantity) = Quantity::parse(&text) {
            let _ = (quantity + quantity, quantity.cmp(&Quantity::ZERO), quantity.value());
            prop_assert_eq!(parse(&quantity.to_string()), quantity);
        }
    }
}

#[test]
fn the_canonical_form_of_many_digits_can_be_read_again() {
    let canonical =
        Quantity::canonical("03.990000001174869900000999990000117486219e0222249999").unwrap();
    assert_eq!(Quantity::canonical(&canonical).as_ref(), Ok(&canonical));
}
