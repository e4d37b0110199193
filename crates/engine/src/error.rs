//! What can go wrong between a request and its tokens, with the surface it comes from.

use kauri_device::DeviceError;

/// An error of the engine.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read as a model.
    #[error(transparent)]
    File(#[from] kauri_formats::Error),
    /// The file describes no model that kauri knows.
    #[error(transparent)]
    Architecture(#[from] kauri_arch::Error),
    /// The tensors do not fit the description.
    #[error(transparent)]
    Weights(#[from] kauri_model::load::Error),
    /// An adapter cannot be used with the model.
    #[error(transparent)]
    Adapter(#[from] kauri_model::adapter::Error),
    /// A request names an adapter that is not there.
    #[error("there is no adapter number {number}: {count} were loaded, and the first is number 0")]
    UnknownAdapter {
        /// What was named.
        number: u32,
        /// How many there are.
        count: usize,
    },
    /// A request names an adapter twice.
    #[error("adapter number {number} is named twice; name it once, with one scale")]
    AdapterTwice {
        /// Which.
        number: u32,
    },
    /// A scale is out of range.
    #[error("the scale of an adapter is {scale}; give a number from -1000 to 1000")]
    AdapterScale {
        /// What was given.
        scale: f32,
    },
    /// The window asked for does not suit the model.
    #[error(transparent)]
    Window(#[from] kauri_model::fit::WindowError),
    /// There is not enough memory.
    #[error(transparent)]
    DoesNotFit(#[from] crate::fitting::Misfit),
    /// The weights cannot be kept in memory.
    #[error("the weights cannot be kept in memory: {0}; raise the limit (ulimit -l), or leave --lock out")]
    Lock(std::io::Error),
    /// The system does not say what memory this program has.
    #[error("this system does not say how much memory a program has resident (Linux does, in /proc/self/smaps_rollup)")]
    ResidentUnknown,
    /// The vocabulary cannot be used.
    #[error(transparent)]
    Tokenizer(#[from] kauri_tokenizer::Error),
    /// The chat template cannot be used, or refused the conversation.
    #[error(transparent)]
    Template(#[from] kauri_prompt::template::Error),
    /// A sampling setting is out of range.
    #[error(transparent)]
    Sampling(#[from] kauri_step::sample::Error),
    /// A stop string cannot be used.
    #[error(transparent)]
    Stop(#[from] kauri_step::stop::Error),
    /// What the answer is to obey cannot be enforced, or could not be followed to its end.
    #[error(transparent)]
    Grammar(#[from] kauri_step::grammar::Error),
    /// A list of tools cannot be used.
    #[error(transparent)]
    Tools(#[from] kauri_step::tools::Error),
    /// The model has no chat template.
    #[error("this model has no chat template; use --raw to continue plain text")]
    NoTemplate,
    /// The prompt is empty.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// The prompt does not leave room for a token.
    #[error(
        "the prompt has {prompt} tokens, but the window holds {window}, the answer included; shorten it, or ask for a larger --context if the model allows"
    )]
    PromptTooLong {
        /// Tokens of the prompt.
        prompt: usize,
        /// Tokens of the window.
        window: usize,
    },
    /// The text that is to be read is empty.
    #[error("the text is empty: there is nothing to read")]
    EmptyText,
    /// A text that is to be read does not fit.
    #[error(
        "the text has {tokens} tokens, but the window holds {window}; shorten it, or ask for a larger --context if the model allows"
    )]
    TextTooLong {
        /// Tokens of the text.
        tokens: usize,
        /// Tokens of the window.
        window: usize,
    },
    /// The model reads and does not write.
    #[error(
        "this model only reads: it makes vectors or scores of texts and writes none; use kauri embed or kauri rerank"
    )]
    OnlyReads,
    /// The model has nothing that judges.
    #[error(
        "this model is no reranker: it has no classifier to judge documents with; kauri embed makes vectors with it"
    )]
    NoJudge,
    /// There are not as many values.
    #[error("{asked} dimensions of vectors that have {width}; ask for 1 to {width}")]
    Dimensions {
        /// What was asked for.
        asked: u32,
        /// Values of a vector.
        width: u32,
    },
    /// A token id is not in the vocabulary.
    #[error("token {token} is not in the vocabulary of {vocab}")]
    UnknownToken {
        /// The id.
        token: u32,
        /// Size of the vocabulary.
        vocab: u32,
    },
    /// The model computes no numbers.
    #[error("the model's logits are not finite numbers: its file is damaged, or its weights overflow")]
    NotFinite,
    /// As many requests wait as may.
    #[error("the queue is full: {waiting} requests wait already; try again later")]
    QueueFull {
        /// How many wait.
        waiting: u32,
    },
    /// Nobody took what was written.
    #[error("the answer was given up: too little of it was taken for too long")]
    Unread,
    /// The step that a request was in was lost, with all that was computed for it.
    #[error("the step was lost: {0}")]
    StepLost(String),
    /// The service that the request went to is gone.
    #[error("the engine has stopped")]
    Stopped,
    /// The device cannot be had, or is not built in.
    #[error("{0}")]
    NoDevice(String),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

impl Error {
    /// Whether the caller's input is to blame, not the machine.
    pub fn is_input(&self) -> bool {
        match self {
            Self::NotFinite
            | Self::Lock(_)
            | Self::ResidentUnknown
            | Self::QueueFull { .. }
            | Self::Unread
            | Self::StepLost(_)
            | Self::Stopped
            | Self::Grammar(kauri_step::grammar::Error::Disobeyed(_))
            | Self::Device(DeviceError::Lost { .. } | DeviceError::OutOfMemory { .. } | DeviceError::Length { .. }) => {
                false
            }
            // A file that changes while it is read is nobody's input.
            Self::File(error) => !matches!(error.fault(), kauri_formats::Error::Changed { .. }),
            Self::Architecture(_)
            | Self::Weights(_)
            | Self::Adapter(_)
            | Self::UnknownAdapter { .. }
            | Self::AdapterTwice { .. }
            | Self::AdapterScale { .. }
            | Self::Window(_)
            | Self::DoesNotFit(_)
            | Self::Tokenizer(_)
            | Self::Template(_)
            | Self::Sampling(_)
            | Self::Stop(_)
            | Self::Grammar(_)
            | Self::Tools(_)
            | Self::NoTemplate
            | Self::EmptyPrompt
            | Self::PromptTooLong { .. }
            | Self::EmptyText
            | Self::TextTooLong { .. }
            | Self::OnlyReads
            | Self::NoJudge
            | Self::Dimensions { .. }
            | Self::UnknownToken { .. }
            | Self::NoDevice(_)
            | Self::Device(DeviceError::Unsupported { .. }) => true,
        }
    }
}
