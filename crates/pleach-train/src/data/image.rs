//! Decoding and scaling images.

use std::io::Cursor;

use png::{ColorType, Transformations};
use zune_core::bytestream::ZCursor;
use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;

/// A decoded image, `[height][width][channels]` with 1 (grey) or 3 (red, green, blue) channels.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) height: usize,
    pub(crate) width: usize,
    pub(crate) channels: usize,
    pub(crate) pixels: Vec<u8>,
}

/// Larger ones are taken for damaged, before they take memory.
const MAX_PIXELS: usize = 1 << 26;

/// Decodes a JPEG or PNG file, to `channels` channels or to those it has. Transparency is ignored.
///
/// # Errors
/// What is wrong, in words. With `size` (height and width), an image of another size is refused
/// before it is decoded.
pub(crate) fn decode(
    bytes: &[u8],
    channels: Option<usize>,
    size: Option<[usize; 2]>,
) -> Result<Image, String> {
    let image = match bytes {
        [0xff, 0xd8, ..] => decode_jpeg(bytes, channels, size)?,
        [0x89, b'P', b'N', b'G', ..] => decode_png(bytes, size)?,
        _ => return Err("it is neither JPEG nor PNG".into()),
    };
    Ok(image.with_channels(channels))
}

fn decode_jpeg(bytes: &[u8], channels: Option<usize>, size: Option<[usize; 2]>) -> Result<Image, String> {
    let damaged = |error| format!("its JPEG is damaged or cut short ({error:?})");
    // The decoder fills in what is missing at the end.
    if !has_end(bytes) {
        return Err("its JPEG is damaged or cut short (it has no end marker)".into());
    }
    let options = DecoderOptions::default().set_strict_mode(true);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(damaged)?;
    let info = decoder.info().ok_or("its JPEG has no header")?;
    let (height, width) = (info.height.into(), info.width.into());
    check_size(height, width, size)?;
    let grey = decoder.input_colorspace() == Some(ColorSpace::Luma);
    let (space, channels) =
        if grey || channels == Some(1) { (ColorSpace::Luma, 1) } else { (ColorSpace::RGB, 3) };
    decoder.set_options(options.jpeg_set_out_colorspace(space));
    let pixels = decoder.decode().map_err(damaged)?;
    Image::new(height, width, channels, pixels)
}

/// Whether the segments of a JPEG lead to its end marker (ITU-T T.81, annex B).
fn has_end(bytes: &[u8]) -> bool {
    let mut at = 2;
    loop {
        // In a scan 0xff is followed by 0 or by a restart marker; before a marker it may be repeated.
        let Some(step) = bytes.get(at..).and_then(|rest| rest.iter().position(|&byte| byte == 0xff)) else {
            return false;
        };
        at += step + 1;
        match bytes.get(at) {
            Some(0xd9) => return true,
            Some(0 | 0x01 | 0xd0..=0xd8 | 0xff) => {}
            Some(_) => {
                let Some(&[high, low]) = bytes.get(at + 1..at + 3) else { return false };
                at += 1 + usize::from(u16::from_be_bytes([high, low]));
            }
            None => return false,
        }
    }
}

fn decode_png(bytes: &[u8], size: Option<[usize; 2]>) -> Result<Image, String> {
    let damaged = |error| format!("its PNG is damaged or cut short ({error})");
    let mut decoder = png::Decoder::new(Cursor::new(bytes));
    decoder.set_transformations(Transformations::EXPAND | Transformations::STRIP_16);
    let mut reader = decoder.read_info().map_err(damaged)?;
    let (height, width) = (reader.info().height as usize, reader.info().width as usize);
    check_size(height, width, size)?;
    let mut pixels = vec![0; reader.output_buffer_size().ok_or("it is too large")?];
    reader.next_frame(&mut pixels).map_err(damaged)?;
    reader.finish().map_err(damaged)?;
    let (channels, kept) = match reader.output_color_type().0 {
        ColorType::Grayscale | ColorType::Indexed => (1, 1),
        ColorType::GrayscaleAlpha => (2, 1),
        ColorType::Rgb => (3, 3),
        ColorType::Rgba => (4, 3),
    };
    if kept < channels {
        pixels = pixels.chunks_exact(channels).flat_map(|pixel| &pixel[..kept]).copied().collect();
    }
    Image::new(height, width, kept, pixels)
}

fn check_size(height: usize, width: usize, size: Option<[usize; 2]>) -> Result<(), String> {
    match size {
        Some([h, w]) if [h, w] != [height, width] => Err(format!(
            "{height}×{width} pixels, and the first image has {h}×{w}; give a size to which all are brought"
        )),
        _ if height == 0 || width == 0 => Err("it has no pixels".into()),
        _ if height.saturating_mul(width) > MAX_PIXELS => {
            Err(format!("{height}×{width} pixels; at most {MAX_PIXELS} are read"))
        }
        _ => Ok(()),
    }
}

impl Image {
    fn new(height: usize, width: usize, channels: usize, pixels: Vec<u8>) -> Result<Image, String> {
        if pixels.len() != height * width * channels {
            return Err(format!("{} bytes for {height}×{width}×{channels} pixels", pixels.len()));
        }
        Ok(Image { height, width, channels, pixels })
    }

    /// Grey to colour, or colour to grey with the weights of ITU-R BT.601.
    fn with_channels(self, channels: Option<usize>) -> Image {
        let pixels = match (self.channels, channels) {
            (1, Some(3)) => self.pixels.iter().flat_map(|&grey| [grey; 3]).collect(),
            (3, Some(1)) => {
                self.pixels.chunks_exact(3).map(|pixel| luma(pixel[0], pixel[1], pixel[2])).collect()
            }
            _ => return self,
        };
        Image { channels: channels.unwrap_or(self.channels), pixels, ..self }
    }

    /// Scales the image until it covers `size` (height and width), and cuts around its centre.
    ///
    /// Each pixel is an average under a triangle that is as wide as two pixels of the coarser grid, so
    /// that small copies of large images do not flicker.
    pub(crate) fn covering(&self, [height, width]: [usize; 2]) -> Image {
        if [height, width] == [self.height, self.width] {
            return Image { pixels: self.pixels.clone(), ..*self };
        }
        // Pixels of the image for one of the result.
        let step = (self.height as f64 / height as f64).min(self.width as f64 / width as f64);
        let (rows, columns) = (filter(self.height, height, step), filter(self.width, width, step));
        let channels = self.channels;
        let mut narrow = vec![0.0_f32; self.height * width * channels];
        for (from, to) in
            self.pixels.chunks_exact(self.width * channels).zip(narrow.chunks_exact_mut(width * channels))
        {
            for ((start, weights), pixel) in columns.iter().zip(to.chunks_exact_mut(channels)) {
                for (&weight, near) in weights.iter().zip(from[start * channels..].chunks_exact(channels)) {
                    for (sum, &value) in pixel.iter_mut().zip(near) {
                        *sum += weight * f32::from(value);
                    }
                }
            }
        }
        let mut pixels = Vec::with_capacity(height * width * channels);
        let mut row = vec![0.0_f32; width * channels];
        for (start, weights) in &rows {
            row.fill(0.0);
            for (&weight, near) in weights.iter().zip(narrow[start * row.len()..].chunks_exact(row.len())) {
                for (sum, &value) in row.iter_mut().zip(near) {
                    *sum += weight * value;
                }
            }
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "`as` clamps to bytes"
            )]
            pixels.extend(row.iter().map(|&sum| (sum + 0.5) as u8));
        }
        Image { height, width, channels, pixels }
    }
}

fn luma(red: u8, green: u8, blue: u8) -> u8 {
    let sum = 299 * u32::from(red) + 587 * u32::from(green) + 114 * u32::from(blue);
    u8::try_from((sum + 500) / 1000).unwrap_or(u8::MAX)
}

/// For each of `to` pixels the first of `from` pixels in its reach, and the weights from there on.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "places lie within the image")]
fn filter(from: usize, to: usize, step: f64) -> Vec<(usize, Vec<f32>)> {
    let start = (from as f64 - to as f64 * step) / 2.0;
    let reach = step.max(1.0);
    (0..to)
        .map(|place| {
            let centre = start + (place as f64 + 0.5) * step;
            let first = ((centre - reach).floor().max(0.0) as usize).min(from - 1);
            let end = ((centre + reach).ceil() as usize).clamp(first + 1, from);
            let weight = |at: usize| (1.0 - ((at as f64 + 0.5 - centre) / reach).abs()).max(0.0);
            let sum: f64 = (first..end).map(weight).sum();
            (first, (first..end).map(|at| (weight(at) / sum) as f32).collect())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::testing;

    #[test]
    fn png_of_every_kind_becomes_grey_or_colour() {
        for (kind, bytes, channels, first) in [
            (ColorType::Grayscale, 1, 1, vec![7]),
            (ColorType::GrayscaleAlpha, 2, 1, vec![7]),
            (ColorType::Rgb, 3, 3, vec![7, 8, 9]),
            (ColorType::Rgba, 4, 3, vec![7, 8, 9]),
        ] {
            let pixels: Vec<u8> = (7..7 + bytes).cycle().take(usize::from(bytes) * 6).collect();
            let image = decode(&testing::png(2, 3, kind, &pixels), None, None).unwrap();
            assert_eq!((image.height, image.width, image.channels), (2, 3, channels));
            assert_eq!(image.pixels[..channels], first);
        }
    }

    #[test]
    fn channels_can_be_chosen() {
        let grey = testing::png(1, 2, ColorType::Grayscale, &[5, 200]);
        assert_eq!(decode(&grey, Some(3), None).unwrap().pixels, [5, 5, 5, 200, 200, 200]);
        let colour = testing::png(1, 1, ColorType::Rgb, &[255, 0, 0]);
        assert_eq!(decode(&colour, Some(1), None).unwrap().pixels, [76]);
        for (kind, channels) in [(jpeg_encoder::ColorType::Luma, 1), (jpeg_encoder::ColorType::Rgb, 3)] {
            let file = testing::jpeg(8, 9, kind, &vec![100; 72 * channels]);
            assert_eq!(decode(&file, None, None).unwrap().channels, channels);
            for wanted in [1, 3] {
                let image = decode(&file, Some(wanted), None).unwrap();
                assert_eq!((image.height, image.width, image.channels), (8, 9, wanted));
                assert!(image.pixels.iter().all(|&pixel| pixel.abs_diff(100) < 3), "{image:?}");
            }
        }
    }

    #[test]
    fn other_sizes_are_refused_unless_scaled() {
        let file = testing::png(2, 4, ColorType::Grayscale, &[0, 10, 20, 30, 0, 10, 20, 30]);
        let error = decode(&file, None, Some([2, 2])).unwrap_err();
        assert!(error.starts_with("2×4 pixels, and the first image has 2×2"), "{error}");
        let image = decode(&file, None, None).unwrap();
        // The centre, where nothing is scaled.
        assert_eq!(image.covering([2, 2]).pixels, [10, 20, 10, 20]);
        // As Pillow 13 resizes with BILINEAR.
        assert_eq!(image.covering([1, 2]).pixels, [7, 23]);
        let large = image.covering([4, 8]);
        assert_eq!((large.height, large.width), (4, 8));
        assert_eq!(large.pixels[..8], [0, 3, 8, 13, 18, 23, 28, 30]);
        for size in [[1, 1], [1, 7], [7, 1], [3, 5]] {
            let flat = Image { pixels: vec![77; 8], ..decode(&file, None, None).unwrap() };
            assert!(flat.covering(size).pixels.iter().all(|&pixel| pixel == 77), "{size:?}");
        }
    }

    #[test]
    fn a_file_that_is_cut_short_is_damaged() {
        let noise: Vec<u8> = (0..16 * 16 * 3_u32).map(|i| (i * i % 251) as u8).collect();
        for whole in [
            testing::png(16, 16, ColorType::Rgb, &noise),
            testing::jpeg(16, 16, jpeg_encoder::ColorType::Rgb, &noise),
        ] {
            assert!(decode(&whole, None, None).is_ok());
            let passed: Vec<usize> =
                (0..whole.len()).filter(|&cut| decode(&whole[..cut], None, None).is_ok()).collect();
            assert!(passed.is_empty(), "{passed:?} of {}", whole.len());
        }
    }
}
