//! The wire format of protobuf: numbered fields, one after the other.
//! Source: <https://protobuf.dev/programming-guides/encoding/>

use super::{ProtobufError, Result};

/// What a field carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Payload<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

impl<'a> Payload<'a> {
    pub(crate) fn bytes(self) -> Result<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(ProtobufError::Damaged),
        }
    }

    pub(super) fn text(self) -> Result<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| ProtobufError::Damaged)
    }

    pub(super) fn varint(self) -> Result<u64> {
        match self {
            Self::Varint(number) => Ok(number),
            _ => Err(ProtobufError::Damaged),
        }
    }

    pub(super) fn double(self) -> Result<f64> {
        match self {
            Self::Fixed64(bits) => Ok(f64::from_bits(bits)),
            _ => Err(ProtobufError::Damaged),
        }
    }

    /// Field 1 of a message that wraps bytes; nothing if it is absent.
    pub(super) fn only_bytes(self) -> Result<&'a [u8]> {
        match self.only()? {
            Some(payload) => payload.bytes(),
            None => Ok(&[]),
        }
    }

    /// The same for a text.
    pub(super) fn only_text(self) -> Result<&'a str> {
        match self.only()? {
            Some(payload) => payload.text(),
            None => Ok(""),
        }
    }

    /// The same for a number.
    pub(super) fn only_varint(self) -> Result<u64> {
        match self.only()? {
            Some(payload) => payload.varint(),
            None => Ok(0),
        }
    }

    fn only(self) -> Result<Option<Self>> {
        let mut found = None;
        for field in Fields::new(self.bytes()?) {
            if let (1, payload) = field? {
                found = Some(payload);
            }
        }
        Ok(found)
    }
}

/// The fields of a message in their order. Ends after the first that cannot be read.
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(crate) fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    fn read(&mut self) -> Result<(u32, Payload<'a>)> {
        let tag = varint(&mut self.rest)?;
        let number = u32::try_from(tag >> 3).map_err(|_| ProtobufError::Damaged)?;
        let payload = match tag & 7 {
            0 => Payload::Varint(varint(&mut self.rest)?),
            1 => Payload::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = varint(&mut self.rest)?;
                let length = usize::try_from(length).map_err(|_| ProtobufError::Damaged)?;
                Payload::Bytes(self.take(length)?)
            }
            5 => Payload::Fixed32(u32::from_le_bytes(self.array()?)),
            _ => return Err(ProtobufError::Damaged),
        };
        Ok((number, payload))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or(ProtobufError::Damaged)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.take(N)?.try_into().map_err(|_| ProtobufError::Damaged)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Payload<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.read();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

/// Numbers packed one behind the other.
pub(super) fn varints(mut packed: &[u8]) -> impl Iterator<Item = Result<u64>> {
    std::iter::from_fn(move || {
        if packed.is_empty() {
            return None;
        }
        let number = varint(&mut packed);
        if number.is_err() {
            packed = &[];
        }
        Some(number)
    })
}

fn varint(rest: &mut &[u8]) -> Result<u64> {
    let mut number = 0u64;
    for (index, byte) in rest.iter().enumerate().take(10) {
        number |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            *rest = &rest[index + 1..];
            return Ok(number);
        }
    }
    Err(ProtobufError::Damaged)
}
