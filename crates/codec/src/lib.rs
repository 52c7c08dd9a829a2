//! Codecs that represent gradients in fewer bytes: workers encode, and a parameter server decodes.
//!
//! The header of a code has the codec and the number of values ([`wire`] has the format), so one function decodes all
//! codes. It checks every byte, because codes come from a network.
//!
//! | codec | bits a value | what it keeps |
//! |---|---|---|
//! | `none` | 32 | every bit |
//! | `f16` | 16 | 11 significant bits |
//! | `uniform-K` | K | one of 2^K evenly spaced levels |
//! | `terngrad` | 2 | a sign or nothing, at random, unbiased |
//! | `one-bit` | 1 | a sign, and the mean of the values with that sign |
//! | `top-K` | (34.5 + log2 K) / K, about | one in K values: those of the largest magnitude |
//! | `quantile-B` | log2 B | one of B buckets with about as many values each, and the bucket's mean |
//! | `casq-4`, `casq-8` | 2, 3 | one of K clusters, and the mean of a hash bucket in it |
//! | `casq-4-shared` | 2 | one of 4 clusters that all workers agree on, as integers that a fabric can sum |
//!
//! All codecs except `none` and `casq-4-shared` also exist with error feedback, for example `casq-4-ef`: see
//! [`ErrorFeedback`].
//!
//! ```
//! use tributary_codec::{Codec, Kind, decode};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let gradient: Vec<f32> = (0..10_000).map(|i| (i as f32).sin().powi(3)).collect();
//! let mut codec = "casq-4".parse::<Kind>()?.codec(1);
//! let code = codec.encode(&gradient)?;
//! assert!(code.len() * 13 < gradient.len() * 4);
//! let decoded = decode(&code, gradient.len())?;
//! assert!(decoded.iter().zip(&gradient).all(|(a, b)| (a - b).abs() < 0.5));
//! # Ok(())
//! # }
//! ```

mod bits;
mod casq;
mod codec;
mod decode;
mod encoders;
mod error;
mod f16;
mod feedback;
mod finite;
mod hash;
mod kind;
mod kmeans;
mod levels;
mod none;
mod one_bit;
mod pieces;
mod positions;
mod quantile;
mod residual;
mod shared;
mod terngrad;
mod top;
mod uniform;
pub mod wire;
mod write;

pub use casq::{Buckets, Casq};
pub use codec::Codec;
pub use decode::{decode, decode_into};
pub use error::{DecodeError, EncodeError, UnknownCodec};
pub use f16::F16;
pub use feedback::ErrorFeedback;
pub use kind::{Kind, Lossy};
pub use none::Uncompressed;
pub use one_bit::OneBit;
pub use quantile::Quantile;
pub use residual::Residual;
pub use shared::{Codebook, Lanes, LanesError, Shared, Sketch};
pub use terngrad::TernGrad;
pub use top::TopK;
pub use uniform::Uniform;
