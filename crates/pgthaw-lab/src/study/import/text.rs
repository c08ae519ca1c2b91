use std::io::{self, BufRead, BufReader, Read};

use encoding_rs::{UTF_16BE, UTF_16LE};
use encoding_rs_io::DecodeReaderBytesBuilder;
use flate2::bufread::MultiGzDecoder;

const BUFFER_BYTES: usize = 1 << 18;

const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Decodes gzip and UTF-16. Other text passes unchanged.
pub fn decode(source: impl Read + 'static) -> io::Result<Box<dyn BufRead>> {
    let mut source = BufReader::with_capacity(BUFFER_BYTES, source);
    match source.fill_buf()?.starts_with(&GZIP) {
        true => decode_marked(BufReader::with_capacity(BUFFER_BYTES, MultiGzDecoder::new(source))),
        false => decode_marked(source),
    }
}

fn decode_marked(mut source: impl BufRead + 'static) -> io::Result<Box<dyn BufRead>> {
    let encoding = match source.fill_buf()? {
        // UTF-16 without a byte order mark: the high byte of ASCII is 0.
        [b'\t'..=b'~', 0, b'\t'..=b'~', 0, ..] => Some(UTF_16LE),
        [0, b'\t'..=b'~', 0, b'\t'..=b'~', ..] => Some(UTF_16BE),
        _ => None,
    };
    let text = DecodeReaderBytesBuilder::new().encoding(encoding).strip_bom(true).build(source);
    Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, text)))
}

/// Treats the cut of a truncated compressed file as its end, and sets `is_cut`.
pub fn note_cut(read: io::Result<usize>, is_cut: &mut bool) -> io::Result<usize> {
    *is_cut |= read.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::UnexpectedEof);
    if *is_cut { Ok(0) } else { read }
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
            [&b"\xef\xbb\xbf"[..], TEXT.as_bytes()].concat(),
            utf_16(0xfeff, u16::to_be_bytes),
            utf_16(0xfeff, u16::to_be_bytes).split_off(2),
            low[2..].to_vec(),
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
