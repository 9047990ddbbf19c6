//! Cutting batches into pieces.
//!
//! redb puts a large value into one page of a power of two, which is written whole. So a batch is cut into pieces that
//! fill such pages. Each is handed over as soon as it is complete, while the processor's cache still has it; but the first
//! comes last, for it begins with the checksum of all.

/// Pages cost per page, so they are large; but larger buffers the allocator gives back to the system each time.
const PAGE_MAX: usize = 128 << 10;
const PAGE_MIN: usize = 4 << 10;
/// What redb needs of such a page for itself and the key.
const OVERHEAD: usize = 4 + 4 + 12;
/// The length of all pieces but the last few.
const FULL: usize = PAGE_MAX - OVERHEAD;
const CHECKSUM_BYTES: usize = 4;

/// The length of the next piece: it fills the largest page that it can.
fn length(rest: usize) -> usize {
    let mut page = PAGE_MAX;
    while page > PAGE_MIN && page - OVERHEAD > rest {
        page /= 2;
    }
    rest.min(page - OVERHEAD)
}

/// A batch being cut. `put` takes the pieces with their numbers.
pub(super) struct Cut<'a, P> {
    put: P,
    first: &'a mut Vec<u8>,
    pieces: u32,
    bytes: u64,
    checksum: u32,
}

impl<'a, E, P: FnMut(u32, &[u8]) -> Result<(), E>> Cut<'a, P> {
    /// Begins; `first` is a buffer to use.
    pub(super) fn new(first: &'a mut Vec<u8>, put: P) -> Self {
        Self {
            put,
            first,
            pieces: 0,
            bytes: 0,
            checksum: 0,
        }
    }

    /// Takes what is complete off the beginning of the batch's bytes.
    pub(super) fn complete(&mut self, bytes: &mut Vec<u8>) -> Result<(), E> {
        if bytes.len() < FULL {
            return Ok(());
        }
        let pieces = bytes.chunks_exact(FULL);
        let rest = bytes.len() - pieces.remainder().len();
        for piece in pieces {
            self.piece(piece)?;
        }
        bytes.drain(..rest);
        Ok(())
    }

    /// Takes the rest, and says how long the batch is and how many pieces it has.
    pub(super) fn finish(mut self, mut rest: &[u8]) -> Result<(u64, u32), E> {
        while !rest.is_empty() {
            let (piece, later) = rest.split_at(length(rest.len()));
            self.piece(piece)?;
            rest = later;
        }
        self.first.splice(..CHECKSUM_BYTES, self.checksum.to_le_bytes());
        (self.put)(0, self.first)?;
        Ok((self.bytes, self.pieces))
    }

    fn piece(&mut self, bytes: &[u8]) -> Result<(), E> {
        let number = self.pieces;
        self.pieces += 1;
        self.bytes += bytes.len() as u64;
        if number > 0 {
            self.checksum = crc32c::crc32c_append(self.checksum, bytes);
            return (self.put)(number, bytes);
        }
        self.checksum = crc32c::crc32c(bytes.get(CHECKSUM_BYTES..).unwrap_or_default());
        self.first.clear();
        self.first.extend_from_slice(bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(length: usize, step: usize) {
        let batch: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        let mut pieces = Vec::new();
        let (mut first, mut buffer) = (Vec::new(), Vec::new());
        let put = |number: u32, bytes: &[u8]| {
            pieces.push((number, bytes.to_vec()));
            Ok::<(), ()>(())
        };
        let mut cut = Cut::new(&mut first, put);
        for part in batch.chunks(step) {
            buffer.extend_from_slice(part);
            cut.complete(&mut buffer).unwrap();
        }
        let count = cut.finish(&buffer).map(|(bytes, pieces)| {
            assert_eq!(bytes, length as u64);
            pieces as usize
        });
        assert_eq!(count, Ok(pieces.len()));
        pieces.sort();
        assert!(pieces.iter().map(|(number, _)| *number).eq(0..pieces.len() as u32));
        let whole = pieces.into_iter().flat_map(|(_, bytes)| bytes).collect::<Vec<u8>>();
        let (checksum, rest) = whole.split_at(CHECKSUM_BYTES);
        assert_eq!(checksum, crc32c::crc32c(rest).to_le_bytes());
        assert!(rest == &batch[CHECKSUM_BYTES..]);
    }

    #[test]
    fn pieces_join_to_the_batch() {
        for length in [4, 44, 4000, FULL - 1, FULL, FULL + 1, 2 * FULL, 3 * FULL + 70_000] {
            for step in [1000, FULL, 5 * FULL] {
                check(length, step);
            }
        }
    }
}
