//! Time and chance, the two things that the server takes from outside. Tests put their own in.

use rand::RngCore;

/// Where the time and random numbers come from.
pub trait Environment: Send + Sync + 'static {
    /// Now.
    fn now(&self) -> jiff::Timestamp;

    /// 128 random bits.
    fn random(&self) -> u128;

    /// A new uid or request id: a random (version 4) UUID.
    fn uuid(&self) -> String {
        uuid::Builder::from_random_bytes(self.random().to_le_bytes())
            .into_uuid()
            .to_string()
    }
}

/// The machine's clock and generator.
#[derive(Clone, Copy, Debug, Default)]
pub struct Machine;

impl Environment for Machine {
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::now()
    }

    fn random(&self) -> u128 {
        let mut bytes = [0; 16];
        rand::rng().fill_bytes(&mut bytes);
        u128::from_le_bytes(bytes)
    }
}

/// The time in whole seconds, as `metav1.Time` carries it.
pub(crate) fn whole_seconds(now: jiff::Timestamp) -> jiff::Timestamp {
    jiff::Timestamp::from_second(now.as_second()).unwrap_or(now)
}
