//! What a watch has to send and its connection has not taken yet.
//!
//! Small frames are copied together, so that events that are ready together cost one write. Large ones are handed on as they
//! are: every watch sends the same bytes, and a client that does not read holds a reference and no copy.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// What is ready together goes out together, up to this size.
const PIECE_BYTES: usize = 64 * 1024;
/// Larger frames are not copied.
const SHARED_FROM_BYTES: usize = 4 * 1024;

/// Pieces in order.
#[derive(Default)]
pub(super) struct Outbox {
    ready: VecDeque<Bytes>,
    /// Small frames behind the ready ones.
    open: BytesMut,
    bytes: usize,
}

impl Outbox {
    /// Adds a frame that others may be sending too.
    pub(super) fn share(&mut self, frame: Bytes) {
        if frame.len() < SHARED_FROM_BYTES {
            return self.copy(&frame);
        }
        self.close();
        self.bytes += frame.len();
        self.ready.push_back(frame);
    }

    /// Adds a few bytes.
    pub(super) fn copy(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
        self.open.extend_from_slice(bytes);
    }

    /// Whether there is enough for now.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= PIECE_BYTES
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The next bytes to send.
    pub(super) fn pop(&mut self) -> Option<Bytes> {
        if self.ready.is_empty() {
            self.close();
        }
        let piece = self.ready.pop_front()?;
        self.bytes -= piece.len();
        Some(piece)
    }

    fn close(&mut self) {
        if !self.open.is_empty() {
            // not `split`: what is left of the buffer would stay with a watch that is idle from now on
            self.ready
                .push_back(std::mem::take(&mut self.open).freeze());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_frames_go_out_together_and_large_ones_uncopied() {
        let large = Bytes::from(vec![b'x'; SHARED_FROM_BYTES]);
        let mut out = Outbox::default();
        for frame in [&b"a"[..], b"b"] {
            out.share(Bytes::copy_from_slice(frame));
        }
        out.share(large.clone());
        out.copy(b"c");
        out.share(large.clone());
        let pieces: Vec<Bytes> = std::iter::from_fn(|| out.pop()).collect();
        let texts: Vec<usize> = pieces.iter().map(Bytes::len).collect();
        assert_eq!(texts, [2, large.len(), 1, large.len()]);
        assert_eq!(pieces[0], "ab");
        assert_eq!(pieces[1].as_ptr(), large.as_ptr());
        assert!(out.is_empty());
    }

    #[test]
    fn enough_is_enough() {
        let mut out = Outbox::default();
        assert!(!out.is_full());
        out.share(vec![0; PIECE_BYTES].into());
        assert!(out.is_full());
        out.pop();
        assert!(!out.is_full());
    }
}
