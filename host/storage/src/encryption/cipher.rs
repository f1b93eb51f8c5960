//! The three ciphers, each with one key: from a value to the bytes behind the prefix in storage and back.
//!
//! | provider | bytes | authenticated |
//! |---|---|---|
//! | `aesgcm` | nonce 12, ciphertext, tag 16 | value and storage key |
//! | `aescbc` | IV 16, ciphertext with PKCS #7 padding | nothing |
//! | `secretbox` | nonce 24, tag 16, ciphertext | value |
//!
//! The layout is upstream's (`storage/value/encrypt`), so that other API servers read what is written here.

use aes::{Aes128, Aes192, Aes256};
use aes_gcm::{
    AesGcm,
    aead::{Aead, KeyInit, Payload, array::typenum::U12},
};
use cbc::cipher::{BlockModeDecrypt, BlockModeEncrypt, KeyIvInit, block_padding::Pkcs7};
use crypto_secretbox::{
    XSalsa20Poly1305,
    aead::{Aead as _, KeyInit as _},
};

/// A cipher with its key.
pub(super) enum Cipher {
    Gcm128(AesGcm<Aes128, U12>),
    Gcm192(AesGcm<Aes192, U12>),
    Gcm256(AesGcm<Aes256, U12>),
    Cbc(Box<[u8]>),
    SecretBox(XSalsa20Poly1305),
}

/// A key of a length that the cipher does not have, or bytes that it cannot open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CipherError;

impl Cipher {
    /// AES-GCM with a key of 16, 24 or 32 bytes.
    pub(super) fn gcm(key: &[u8]) -> Result<Self, CipherError> {
        let wrong = |_| CipherError;
        Ok(match key.len() {
            16 => Self::Gcm128(KeyInit::new_from_slice(key).map_err(wrong)?),
            24 => Self::Gcm192(KeyInit::new_from_slice(key).map_err(wrong)?),
            _ => Self::Gcm256(KeyInit::new_from_slice(key).map_err(wrong)?),
        })
    }

    /// AES-CBC with a key of 16, 24 or 32 bytes.
    pub(super) fn cbc(key: &[u8]) -> Result<Self, CipherError> {
        match key.len() {
            16 | 24 | 32 => Ok(Self::Cbc(key.into())),
            _ => Err(CipherError),
        }
    }

    /// XSalsa20 and Poly1305 with a key of 32 bytes.
    pub(super) fn secretbox(key: &[u8]) -> Result<Self, CipherError> {
        let cipher = XSalsa20Poly1305::new_from_slice(key);
        cipher.map(Self::SecretBox).map_err(|_| CipherError)
    }

    /// How many random bytes [`Self::seal`] needs.
    pub(super) fn nonce_bytes(&self) -> usize {
        match self {
            Self::Gcm128(_) | Self::Gcm192(_) | Self::Gcm256(_) => 12,
            Self::Cbc(_) => 16,
            Self::SecretBox(_) => 24,
        }
    }

    /// The nonce and what becomes of a value. `nonce` must be of [`Self::nonce_bytes`] and must never have been used before.
    pub(super) fn seal(
        &self,
        nonce: &[u8],
        value: &[u8],
        key: &[u8],
    ) -> Result<Vec<u8>, CipherError> {
        let sealed = match self {
            Self::Gcm128(cipher) => seal_gcm(cipher, nonce, value, key)?,
            Self::Gcm192(cipher) => seal_gcm(cipher, nonce, value, key)?,
            Self::Gcm256(cipher) => seal_gcm(cipher, nonce, value, key)?,
            Self::Cbc(secret) => match secret.len() {
                16 => seal_cbc::<cbc::Encryptor<Aes128>>(secret, nonce, value)?,
                24 => seal_cbc::<cbc::Encryptor<Aes192>>(secret, nonce, value)?,
                _ => seal_cbc::<cbc::Encryptor<Aes256>>(secret, nonce, value)?,
            },
            Self::SecretBox(cipher) => {
                let nonce = nonce.try_into().map_err(|_| CipherError)?;
                let nonce: [u8; 24] = nonce;
                cipher
                    .encrypt(&nonce.into(), value)
                    .map_err(|_| CipherError)?
            }
        };
        Ok([nonce, &sealed].concat())
    }

    /// The value in what [`Self::seal`] made for the same storage key.
    pub(super) fn open(&self, sealed: &[u8], key: &[u8]) -> Result<Vec<u8>, CipherError> {
        let (nonce, sealed) = sealed
            .split_at_checked(self.nonce_bytes())
            .ok_or(CipherError)?;
        match self {
            Self::Gcm128(cipher) => open_gcm(cipher, nonce, sealed, key),
            Self::Gcm192(cipher) => open_gcm(cipher, nonce, sealed, key),
            Self::Gcm256(cipher) => open_gcm(cipher, nonce, sealed, key),
            Self::Cbc(secret) => match secret.len() {
                16 => open_cbc::<cbc::Decryptor<Aes128>>(secret, nonce, sealed),
                24 => open_cbc::<cbc::Decryptor<Aes192>>(secret, nonce, sealed),
                _ => open_cbc::<cbc::Decryptor<Aes256>>(secret, nonce, sealed),
            },
            Self::SecretBox(cipher) => {
                let nonce: [u8; 24] = nonce.try_into().map_err(|_| CipherError)?;
                let opened = cipher.decrypt(&nonce.into(), sealed);
                opened.map_err(|_| CipherError)
            }
        }
    }
}

fn seal_gcm<C: Aead>(
    cipher: &C,
    nonce: &[u8],
    value: &[u8],
    key: &[u8],
) -> Result<Vec<u8>, CipherError> {
    let nonce = nonce.try_into().map_err(|_| CipherError)?;
    let payload = Payload {
        msg: value,
        aad: key,
    };
    cipher.encrypt(nonce, payload).map_err(|_| CipherError)
}

fn open_gcm<C: Aead>(
    cipher: &C,
    nonce: &[u8],
    sealed: &[u8],
    key: &[u8],
) -> Result<Vec<u8>, CipherError> {
    let nonce = nonce.try_into().map_err(|_| CipherError)?;
    let payload = Payload {
        msg: sealed,
        aad: key,
    };
    cipher.decrypt(nonce, payload).map_err(|_| CipherError)
}

fn seal_cbc<M: BlockModeEncrypt + KeyIvInit>(
    secret: &[u8],
    iv: &[u8],
    value: &[u8],
) -> Result<Vec<u8>, CipherError> {
    let mode = M::new_from_slices(secret, iv).map_err(|_| CipherError)?;
    Ok(mode.encrypt_padded_vec::<Pkcs7>(value))
}

fn open_cbc<M: BlockModeDecrypt + KeyIvInit>(
    secret: &[u8],
    iv: &[u8],
    sealed: &[u8],
) -> Result<Vec<u8>, CipherError> {
    let mode = M::new_from_slices(secret, iv).map_err(|_| CipherError)?;
    mode.decrypt_padded_vec::<Pkcs7>(sealed)
        .map_err(|_| CipherError)
}
