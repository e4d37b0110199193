//! Adapters: the option of every command that applies them.

use clap::Args;
use kauri_engine::AdapterFile;

/// Which adapters, and how much of each.
#[derive(Args, Clone, Debug, Default)]
pub struct LoraOptions {
    /// Apply an adapter (LoRA): a GGUF file, or a directory as PEFT writes it, and perhaps how much of it, such as 0.5; may be given several
    /// times. It stays beside the model's weights and is never merged. A server applies one without a name to every request, and one
    /// with a name to those that ask for it as their model.
    #[arg(long, value_name = "[NAME=]FILE[:SCALE]", value_parser = AdapterFile::parse)]
    lora: Vec<AdapterFile>,
}

impl LoraOptions {
    /// As they were given: those with a name for who asks for them.
    pub fn given(&self) -> &[AdapterFile] {
        &self.lora
    }

    /// All of them, applied, for a command that answers one person.
    pub fn applied(&self) -> Vec<AdapterFile> {
        self.lora.iter().map(|file| AdapterFile { always: true, ..file.clone() }).collect()
    }
}
