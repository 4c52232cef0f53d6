//! Packs and unpacks single buffers of a body.
//!
//! A packed buffer begins with its unpacked length in eight bytes, and the packed bytes follow. A
//! length of -1 says that the bytes that follow are not packed. A claimed length is held against
//! what the reader's options still allow before memory is taken, and the unpacked bytes have to be
//! as many as claimed.

use arrow_device::{Buffer, Error, Result};
use arrow_ipc as fb;

use crate::framing::HostMemory;
use crate::options::Compression;
use crate::problem::{limited, malformed, no_memory, unsupported};

/// How many bytes the length takes that a packed buffer begins with.
const PREFIX: u64 = 8;

/// How the buffers of a message are packed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Codec {
    Lz4,
    Zstd,
}

impl Codec {
    pub(crate) fn of(batch: fb::RecordBatch<'_>) -> Result<Option<Self>> {
        let Some(compression) = batch.compression() else { return Ok(None) };
        if compression.method() != fb::BodyCompressionMethod::BUFFER {
            return Err(unsupported("a body that is compressed in an unknown way"));
        }
        match compression.codec() {
            fb::CompressionType::LZ4_FRAME => Ok(Some(Self::Lz4)),
            fb::CompressionType::ZSTD => Ok(Some(Self::Zstd)),
            other => Err(unsupported(format!("compression of the unknown number {}", other.0))),
        }
    }

    /// Returns the unpacked bytes of a buffer, `None` where it has none. `left` is how many bytes
    /// may still be unpacked, and becomes smaller.
    pub(crate) fn unpack(self, packed: Buffer, left: &mut u64) -> Result<Option<Buffer>> {
        let len = packed.extent().at_least();
        let packed = HostMemory::new(packed)?;
        let prefix = packed.with(0, PREFIX, |bytes| bytes.first_chunk().copied())?;
        let Some(prefix) = prefix.flatten() else {
            return Err(malformed(format!("a compressed buffer of {len} bytes has no length")));
        };
        let unpacked = match i64::from_le_bytes(prefix) {
            -1 if len == PREFIX => return Ok(None),
            -1 => return packed.part(PREFIX, len - PREFIX).map(Some),
            unpacked => u64::try_from(unpacked).map_err(|_| {
                malformed(format!("a compressed buffer says that it has {unpacked} bytes"))
            })?,
        };
        if unpacked == 0 {
            return Ok(None);
        }
        if unpacked > *left {
            let message = format!(
                "a compressed buffer says that it has {unpacked} bytes, and {left} more are allowed"
            );
            return Err(limited(message));
        }
        *left -= unpacked;
        let room = usize::try_from(unpacked).map_err(|_| no_memory(unpacked))?;
        let bytes = packed.with(PREFIX, len - PREFIX, |bytes| self.unpacked(bytes, room))?;
        let bytes = bytes.ok_or_else(|| malformed("a compressed buffer is not there"))??;
        if bytes.len() != room {
            let message = format!(
                "a compressed buffer says that it has {unpacked} bytes, and has {}",
                bytes.len()
            );
            return Err(malformed(message));
        }
        Ok(Some(Buffer::from(bytes)))
    }

    fn unpacked(self, packed: &[u8], room: usize) -> Result<Vec<u8>> {
        match self {
            Self::Lz4 => unpack_lz4(packed, room),
            Self::Zstd => unpack_zstd(packed, room),
        }
    }
}

/// Returns an empty vector with room for `room` bytes, or an error where memory is short.
#[cfg(any(feature = "lz4", feature = "zstd", feature = "ruzstd"))]
fn reserved(room: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(room).map_err(|_| no_memory(room as u64))?;
    Ok(bytes)
}

#[cfg(feature = "lz4")]
fn unpack_lz4(packed: &[u8], room: usize) -> Result<Vec<u8>> {
    use std::io::Read as _;

    let mut bytes = reserved(room)?;
    let broken = |error: std::io::Error| malformed(format!("a buffer is no LZ4 frame: {error}"));
    let mut decoder = lz4_flex::frame::FrameDecoder::new(packed);
    decoder.by_ref().take(room as u64).read_to_end(&mut bytes).map_err(broken)?;
    if decoder.read(&mut [0]).map_err(broken)? != 0 {
        return Err(malformed(format!("a compressed buffer has more than its {room} bytes")));
    }
    Ok(bytes)
}

#[cfg(not(feature = "lz4"))]
fn unpack_lz4(_: &[u8], _: usize) -> Result<Vec<u8>> {
    Err(left_out("lz4"))
}

#[cfg(feature = "zstd")]
fn unpack_zstd(packed: &[u8], room: usize) -> Result<Vec<u8>> {
    let mut bytes = reserved(room)?;
    let broken = |error: std::io::Error| malformed(format!("a buffer is no ZSTD frame: {error}"));
    let mut decompressor = zstd::bulk::Decompressor::new().map_err(broken)?;
    decompressor.decompress_to_buffer(packed, &mut bytes).map_err(broken)?;
    Ok(bytes)
}

/// The decoder in Rust, for targets that the library in C is not built for.
#[cfg(all(feature = "ruzstd", any(test, not(feature = "zstd"))))]
fn unpack_zstd_in_rust(packed: &[u8], room: usize) -> Result<Vec<u8>> {
    use std::io::Read as _;

    let broken =
        |error: &dyn std::fmt::Display| malformed(format!("a buffer is no ZSTD frame: {error}"));
    let mut bytes = reserved(room)?;
    let mut rest = packed;
    // One frame, as the format has it, or several, as the library in C takes them.
    while !rest.is_empty() {
        let decoder = ruzstd::decoding::StreamingDecoder::new(&mut rest);
        let mut decoder = decoder.map_err(|error| broken(&error))?;
        let left = (room - bytes.len()) as u64;
        decoder.by_ref().take(left).read_to_end(&mut bytes).map_err(|error| broken(&error))?;
        if decoder.read(&mut [0]).map_err(|error| broken(&error))? != 0 {
            return Err(malformed(format!("a compressed buffer has more than its {room} bytes")));
        }
    }
    Ok(bytes)
}

#[cfg(all(feature = "ruzstd", not(feature = "zstd")))]
use unpack_zstd_in_rust as unpack_zstd;

#[cfg(not(any(feature = "zstd", feature = "ruzstd")))]
fn unpack_zstd(_: &[u8], _: usize) -> Result<Vec<u8>> {
    Err(left_out("zstd"))
}

#[cfg(not(all(feature = "lz4", feature = "zstd")))]
fn left_out(feature: &str) -> Error {
    unsupported(format!("this build does not have the feature `{feature}`"))
}

impl Compression {
    pub(crate) fn number(self) -> fb::CompressionType {
        match self {
            Self::Lz4 => fb::CompressionType::LZ4_FRAME,
            Self::Zstd { .. } => fb::CompressionType::ZSTD,
        }
    }

    /// Returns a buffer as it is written: packed, or unpacked where packing does not make it
    /// smaller.
    pub(crate) fn pack(self, bytes: &[u8]) -> Result<Vec<u8>> {
        let mut packed = (bytes.len() as i64).to_le_bytes().to_vec();
        match self {
            Self::Lz4 => pack_lz4(bytes, &mut packed)?,
            Self::Zstd { level } => pack_zstd(bytes, level, &mut packed)?,
        }
        if packed.len() >= bytes.len() + PREFIX as usize {
            packed.clear();
            packed.extend_from_slice(&(-1_i64).to_le_bytes());
            packed.extend_from_slice(bytes);
        }
        Ok(packed)
    }
}

#[cfg(feature = "lz4")]
fn pack_lz4(bytes: &[u8], packed: &mut Vec<u8>) -> Result<()> {
    use std::io::Write as _;

    let mut encoder = lz4_flex::frame::FrameEncoder::new(packed);
    encoder.write_all(bytes).map_err(Error::other)?;
    encoder.finish().map_err(Error::other)?;
    Ok(())
}

#[cfg(not(feature = "lz4"))]
fn pack_lz4(_: &[u8], _: &mut Vec<u8>) -> Result<()> {
    Err(left_out("lz4"))
}

#[cfg(feature = "zstd")]
fn pack_zstd(bytes: &[u8], level: i32, packed: &mut Vec<u8>) -> Result<()> {
    let compressed = zstd::bulk::compress(bytes, level).map_err(Error::other)?;
    packed.extend_from_slice(&compressed);
    Ok(())
}

#[cfg(not(feature = "zstd"))]
fn pack_zstd(_: &[u8], _: i32, _: &mut Vec<u8>) -> Result<()> {
    Err(left_out("zstd"))
}

#[cfg(test)]
#[cfg(all(feature = "zstd", feature = "ruzstd"))]
mod tests {
    use super::*;

    /// Bytes that pack well, badly, and in between.
    fn samples() -> Vec<Vec<u8>> {
        let mut state = 1_u32;
        let mut random = move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        let texts = (0..20_000).flat_map(|at: u32| format!("row {}, ", at / 7).into_bytes());
        let noise: Vec<u8> = (0..100_000).map(|_| random()).collect();
        vec![Vec::new(), vec![7], vec![0; 300_000], texts.collect(), noise]
    }

    #[test]
    fn the_decoder_in_rust_unpacks_what_the_library_in_c_packs() {
        for bytes in samples() {
            for level in [-5, 3, 19] {
                let packed = zstd::bulk::compress(&bytes, level).unwrap();
                let unpacked = unpack_zstd_in_rust(&packed, bytes.len()).unwrap();
                assert!(unpacked == bytes, "{} bytes, level {level}", bytes.len());
                let twice = [&packed[..], &packed].concat();
                let unpacked = unpack_zstd_in_rust(&twice, 2 * bytes.len()).unwrap();
                assert!(unpacked == [&bytes[..], &bytes].concat());
            }
        }
    }

    #[test]
    fn the_decoder_in_rust_refuses_what_is_no_frame_of_so_many_bytes() {
        let bytes: Vec<u8> = (0..3000_u32).flat_map(|at| (at / 5).to_le_bytes()).collect();
        let packed = zstd::bulk::compress(&bytes, 3).unwrap();
        let error = unpack_zstd_in_rust(&packed, bytes.len() - 1).unwrap_err();
        assert!(error.to_string().contains("more than its 11999 bytes"), "{error}");
        // The caller compares the length.
        assert_eq!(unpack_zstd_in_rust(&packed, bytes.len() + 1).unwrap().len(), bytes.len());
        assert!(unpack_zstd_in_rust(b"no frame at all", 4).is_err());
        for len in 1..packed.len() {
            assert!(unpack_zstd_in_rust(&packed[..len], bytes.len()).is_err(), "{len} bytes");
        }
        // Neither a panic nor more bytes than there is room for.
        for at in 0..packed.len() {
            for bit in [0, 3, 7] {
                let mut broken = packed.clone();
                broken[at] ^= 1 << bit;
                if let Ok(unpacked) = unpack_zstd_in_rust(&broken, bytes.len()) {
                    assert!(unpacked.len() <= bytes.len());
                }
            }
        }
    }
}
