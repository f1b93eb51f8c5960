//! Writing the wire format. Source: <https://protobuf.dev/programming-guides/encoding/>

/// A number, true or false.
pub(crate) fn number(out: &mut Vec<u8>, field: u32, value: u64) {
    key(out, field, 0);
    varint(out, value);
}

/// A floating point number.
pub(crate) fn double(out: &mut Vec<u8>, field: u32, value: f64) {
    key(out, field, 1);
    out.extend_from_slice(&value.to_bits().to_le_bytes());
}

/// A text or bytes.
pub(crate) fn bytes(out: &mut Vec<u8>, field: u32, value: &[u8]) {
    key(out, field, 2);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// What `content` writes, with its length in front.
pub(crate) fn delimited<T>(
    out: &mut Vec<u8>,
    field: u32,
    content: impl FnOnce(&mut Vec<u8>) -> T,
) -> T {
    key(out, field, 2);
    let at = out.len();
    out.push(0); // room for the length of most messages
    let outcome = content(out);
    let length = out.len() - at - 1;
    match u8::try_from(length) {
        Ok(short) if short < 0x80 => out[at] = short,
        _ => {
            let mut long = Vec::with_capacity(10);
            varint(&mut long, length as u64);
            out.splice(at..=at, long);
        }
    }
    outcome
}

fn key(out: &mut Vec<u8>, field: u32, wire_type: u8) {
    varint(out, u64::from(field) << 3 | u64::from(wire_type));
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
