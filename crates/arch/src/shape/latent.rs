//! Attention over one latent row a token, which all heads share.

use super::{Linear, Norm};

/// Multi-head latent attention (`DeepSeek` 2024, arXiv:2405.04434) in its absorbed form: keys and values of all heads are products of
/// one short row, and what makes them of it is applied to the queries and to what was gathered instead. So one row a token is
/// cached, which is the key of every head; behind its first `rope_dims` values it is their value too.
#[derive(Clone, Debug)]
pub struct Latent<W> {
    /// Query heads.
    pub heads: u32,
    /// Values of the latent row.
    pub latent: u32,
    /// Values of a query, and of the cached row, that say where a token is.
    pub rope_dims: u32,
    /// Values of a query that say what is looked for.
    pub nope_dims: u32,
    /// Values that a head gives.
    pub value_dims: u32,
    /// What queries are made of, where it is not the input: `(rank, hidden)`, and its norm.
    pub q_low: Option<(Linear<W>, Norm<W>)>,
    /// `(heads * (nope_dims + rope_dims), rank or hidden)`.
    pub q: Linear<W>,
    /// `(latent + rope_dims, hidden)`.
    pub kv: Linear<W>,
    /// Of the latent row.
    pub kv_norm: Norm<W>,
    /// For each head what makes its query one for latent rows: `(latent, nope_dims)`, or `(nope_dims, latent)` where it is stored
    /// `turned`.
    pub keys: Vec<Linear<W>>,
    /// Whether it is the transposes of `keys` that queries are multiplied with.
    pub turned: bool,
    /// For each head what makes its values of what it gathered: `(value_dims, latent)`.
    pub values: Vec<Linear<W>>,
    /// `(hidden, heads * value_dims)`.
    pub output: Linear<W>,
    /// Index into [`super::Shape::ropes`].
    pub rope: usize,
    /// Factor on the scores.
    pub scale: f32,
}

impl<W> Latent<W> {
    /// Values of a cached row, and of a head's query when it has been made one for such rows.
    pub fn row(&self) -> u32 {
        self.rope_dims + self.latent
    }

    pub(super) fn try_map<V, E>(&self, map: &mut impl FnMut(&W) -> Result<V, E>) -> Result<Latent<V>, E> {
        let low = |(linear, norm): &(Linear<W>, Norm<W>), map: &mut _| Ok((linear.try_map(map)?, norm.try_map(map)?));
        Ok(Latent {
            heads: self.heads,
            latent: self.latent,
            rope_dims: self.rope_dims,
            nope_dims: self.nope_dims,
            value_dims: self.value_dims,
            q_low: self.q_low.as_ref().map(|both| low(both, map)).transpose()?,
            q: self.q.try_map(map)?,
            kv: self.kv.try_map(map)?,
            kv_norm: self.kv_norm.try_map(map)?,
            keys: self.keys.iter().map(|keys| keys.try_map(map)).collect::<Result<_, _>>()?,
            turned: self.turned,
            values: self.values.iter().map(|values| values.try_map(map)).collect::<Result<_, _>>()?,
            output: self.output.try_map(map)?,
            rope: self.rope,
            scale: self.scale,
        })
    }
}
