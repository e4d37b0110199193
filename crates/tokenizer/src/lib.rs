//! Text to token ids and back. Knows vocabularies and splitting rules; knows no model, no prompt and no request.
#![forbid(unsafe_code)]
