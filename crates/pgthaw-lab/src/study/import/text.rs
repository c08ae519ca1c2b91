//! Text that others kept: compressed by gzip, or saved on Windows in UTF-16 or with a byte-order mark.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;

/// Bytes that are read at once.
const BUFFER_BYTES: usize = 1 << 18;

/// The beginning of what gzip wrote.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Byte-order marks: of UTF-8, and of UTF-16 with the low or the high byte first.
const UTF_8: [u8; 3] = [0xef, 0xbb, 0xbf];
const UTF_16: [([u8; 2], Unit); 2] = [([0xff, 0xfe], u16::from_le_bytes), ([0xfe, 0xff], u16::from_be_bytes)];

/// Reads a unit of UTF-16.
type Unit = fn([u8; 2]) -> u16;

/// Returns the text of a source as UTF-8. What has neither mark is passed on as it is.
pub fn decode(source: impl Read + 'static) -> io::Result<Box<dyn BufRead>> {
    let mut source = BufReader::with_capacity(BUFFER_BYTES, source);
    match source.fill_buf()?.starts_with(&GZIP) {
        true => decode_marked(BufReader::with_capacity(BUFFER_BYTES, MultiGzDecoder::new(source))),
        false => decode_marked(source),
    }
}

fn decode_marked(mut source: impl BufRead + 'static) -> io::Result<Box<dyn BufRead>> {
    let head = source.fill_buf()?;
    if let Some((mark, unit)) = UTF_16.into_iter().find(|(mark, _)| head.starts_with(mark)) {
        source.consume(mark.len());
        return Ok(Box::new(BufReader::new(Utf16 { source, unit, ready: VecDeque::new() })));
    }
    let marked = if head.starts_with(&UTF_8) { UTF_8.len() } else { 0 };
    source.consume(marked);
    Ok(Box::new(source))
}

/// Reads UTF-16 as UTF-8.
struct Utf16<R> {
    source: R,
    unit: Unit,
    /// Bytes that were decoded and not read yet.
    ready: VecDeque<u8>,
}

impl<R: BufRead> Read for Utf16<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.ready.is_empty() {
            let mut bytes = Vec::new();
            self.source.by_ref().take(BUFFER_BYTES as u64).read_to_end(&mut bytes)?;
            let units = bytes.chunks_exact(2).map(|pair| (self.unit)([pair[0], pair[1]]));
            let text = char::decode_utf16(units).map(|read| read.unwrap_or(char::REPLACEMENT_CHARACTER));
            self.ready = text.collect::<String>().into_bytes().into();
        }
        self.ready.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write as _};

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    #[test]
    fn a_text_is_the_same_however_it_was_kept() {
        const TEXT: &str = "pgbench (18.1)\r\nprogress: 1.0 s, 5.0 tps\r\nscript é\r\n";
        let utf_16 = |mark: u16, bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
            std::iter::once(mark).chain(TEXT.encode_utf16()).flat_map(bytes).collect()
        };
        let packed = |bytes: &[u8]| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        };
        let low = utf_16(0xfeff, u16::to_le_bytes);
        let members = [packed(&TEXT.as_bytes()[..20]), packed(&TEXT.as_bytes()[20..])].concat();
        let kept = [
            TEXT.as_bytes().to_vec(),
            [&UTF_8[..], TEXT.as_bytes()].concat(),
            utf_16(0xfeff, u16::to_be_bytes),
            packed(&low),
            low,
            members,
        ];
        for bytes in kept {
            let mut text = String::new();
            decode(Cursor::new(bytes.clone())).unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, TEXT, "{bytes:?}");
        }
        let mut torn = Vec::new();
        assert!(
            decode(Cursor::new(packed(TEXT.as_bytes())[..30].to_vec()))
                .and_then(|mut text| text.read_to_end(&mut torn))
                .is_err()
        );
    }
}
