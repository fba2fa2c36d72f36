//! What `audio_vae_config` in `config.json` says. Variants this program does not compute are refused by name.

use serde_json::Value;

use crate::checkpoint::Config as Json;
use crate::error::{Error, Result};

/// The codec's shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Samples per second of recordings.
    pub sample_rate_in: u32,
    /// Samples per second of speech.
    pub sample_rate_out: u32,
    /// D, numbers in a latent frame.
    pub latent_dim: usize,
    /// Samples of a recording in a frame.
    pub hop_in: usize,
    /// Samples of speech in a frame.
    pub hop_out: usize,
    /// Channels after the encoder's first convolution; every stage doubles them.
    pub encoder_dim: usize,
    /// The encoder's strides, in order.
    pub encoder_rates: Vec<usize>,
    /// Channels before the decoder's first stage; every stage halves them.
    pub decoder_dim: usize,
    /// The decoder's strides, in order.
    pub decoder_rates: Vec<usize>,
    /// Sample rates in ascending order that divide the conditioning into buckets.
    pub boundaries: Vec<u32>,
}

impl Config {
    /// Reads and checks the codec's part of the model's `config.json`; what it does not state takes the model's default.
    ///
    /// # Errors
    /// An implausible value, or a variant that is not supported.
    pub fn read(config: &Json) -> Result<Self> {
        let json = match config.object("audio_vae_config")? {
            Some(json) => json,
            None => Json::parse(config.place(), b"{}")?,
        };
        let json = &json;
        for (key, only) in [("depthwise", true), ("use_noise_block", false), ("cond_out_layer", false)] {
            if let Some(found) = json.opt_bool(key)?.filter(|found| *found != only) {
                return Err(unsupported(json, key, &found.to_string(), &only.to_string()));
            }
        }
        // The two differ in how training began.
        if let Some(found) = json.opt_str("cond_type")?.filter(|t| !["scale_bias", "scale_bias_init"].contains(t)) {
            return Err(unsupported(json, "cond_type", found, "scale_bias"));
        }
        if json.value("sr_bin_boundaries") == Some(&Value::Null) {
            return Err(unsupported(json, "sr_bin_boundaries", "null", "a list of sample rates"));
        }
        let size = |key: &str, default: usize, most: usize| match json.opt_usize(key)?.unwrap_or(default) {
            value if (1..=most).contains(&value) => Ok(value),
            value => Err(json.wrong(key, format!("is {value}, which is not a plausible size"))),
        };
        let rates = |key: &str, default: &[usize]| {
            let rates = json.opt_usizes(key)?.unwrap_or_else(|| default.to_vec());
            if rates.is_empty() || rates.len() > 12 || rates.iter().any(|r| !(1..=64).contains(r)) {
                return Err(json.wrong(key, "holds implausible strides"));
            }
            let hop = rates.iter().fold(1_usize, |hop, rate| hop.saturating_mul(*rate));
            if hop > 1_000_000 {
                return Err(json.wrong(key, format!("makes {hop} samples a frame, which is implausible")));
            }
            Ok((rates, hop))
        };
        let (encoder_rates, hop_in) = rates("encoder_rates", &[2, 5, 8, 8])?;
        let (decoder_rates, hop_out) = rates("decoder_rates", &[8, 6, 5, 2, 2, 2])?;
        let encoder_dim = size("encoder_dim", 128, 65_536)?;
        if encoder_dim << encoder_rates.len() > 1 << 18 {
            return Err(json.wrong("encoder_dim", format!("is {encoder_dim}, which is not a plausible size")));
        }
        let decoder_dim = size("decoder_dim", 2048, 1 << 20)?;
        if !decoder_dim.is_multiple_of(1 << decoder_rates.len()) {
            let stages = decoder_rates.len();
            return Err(json.wrong("decoder_dim", format!("is {decoder_dim}, which {stages} stages cannot halve")));
        }
        let (rate_in, rate_out) = (size("sample_rate", 16_000, 1 << 20)?, size("out_sample_rate", 48_000, 1 << 20)?);
        if rate_in * hop_out != rate_out * hop_in {
            return Err(json.wrong(
                "out_sample_rate",
                format!("is {rate_out}, which does not follow from sample_rate {rate_in} and the strides"),
            ));
        }
        let boundaries = json.opt_usizes("sr_bin_boundaries")?.unwrap_or_else(|| vec![20_000, 30_000, 40_000]);
        if boundaries.len() > 64 || !boundaries.is_sorted() {
            return Err(json.wrong("sr_bin_boundaries", "should be a short list in ascending order"));
        }
        Ok(Self {
            sample_rate_in: rate_in as u32,
            sample_rate_out: rate_out as u32,
            latent_dim: size("latent_dim", 64, 65_536)?,
            hop_in,
            hop_out,
            encoder_dim,
            encoder_rates,
            decoder_dim,
            decoder_rates,
            boundaries: boundaries.into_iter().map(|rate| rate as u32).collect(),
        })
    }

    /// The row of the conditioning tables for the codec's own output rate: a rate on a boundary belongs below it.
    pub fn bucket(&self) -> usize {
        self.boundaries.iter().filter(|boundary| **boundary < self.sample_rate_out).count()
    }
}

fn unsupported(json: &Json, key: &str, value: &str, only: &str) -> Error {
    json.wrong(key, format!("is `{value}`, but only `{only}` is supported"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn read(vae: &str) -> Result<Config> {
        Config::read(&Json::parse("dir/config.json", format!(r#"{{"audio_vae_config": {vae}}}"#).as_bytes()).unwrap())
    }

    #[test]
    fn defaults_are_the_real_model() {
        let config = Config::read(&Json::parse("c", b"{}").unwrap()).unwrap();
        assert_eq!(config, read("{}").unwrap());
        assert_eq!((config.sample_rate_in, config.sample_rate_out), (16_000, 48_000));
        assert_eq!((config.latent_dim, config.hop_in, config.hop_out), (64, 640, 1920));
        assert_eq!((config.encoder_dim, config.decoder_dim, config.bucket()), (128, 2048, 3));
    }

    #[test]
    fn a_rate_on_a_boundary_belongs_below_it() {
        for (boundaries, bucket) in [("[48000]", 0), ("[47999]", 1), ("[]", 0), ("[1, 2, 50000]", 2)] {
            assert_eq!(read(&format!(r#"{{"sr_bin_boundaries": {boundaries}}}"#)).unwrap().bucket(), bucket);
        }
    }

    #[test]
    fn wrong_values_are_refused_by_key() {
        for (key, values) in [
            ("depthwise", &["false", "1"][..]),
            ("use_noise_block", &["true"]),
            ("cond_out_layer", &["true", "\"no\""]),
            ("cond_type", &["\"concat\"", "7"]),
            ("sr_bin_boundaries", &["null", "[3, 1]", "[-1]", "5"]),
            ("encoder_rates", &["[]", "[0]", "[65]", "[64, 64, 64, 64]", "[1.5]", "\"2\""]),
            ("decoder_rates", &["[]", "[8, 6, 5, 2, 2, 0]", "[64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64]"]),
            ("encoder_dim", &["0", "-1", "2147483647", "65536"]),
            ("decoder_dim", &["0", "2047", "96", "2147483647"]),
            ("latent_dim", &["0", "2147483647", "\"64\""]),
            ("sample_rate", &["0", "1e300"]),
            ("out_sample_rate", &["44100", "0"]),
        ] {
            for value in values {
                let error = read(&format!(r#"{{"{key}": {value}}}"#)).unwrap_err().to_string();
                assert!(error.contains("dir/config.json") && error.contains(key), "{key} {value}: {error}");
            }
        }
    }
}
