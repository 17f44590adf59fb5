//! Why a head was refused. For a request every variant has the status to answer with; for a response the blame lies
//! upstream and the answer is 502 whatever the variant.

use crate::http::{FramingError, Status};

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    #[error("the head is larger than {limit} bytes")]
    TooLarge { limit: u32 },
    #[error("the head has more than {limit} fields")]
    TooManyFields { limit: u16 },
    #[error("the request target is longer than {limit} bytes")]
    UriTooLong { limit: u32 },
    #[error("the head ends before its last empty line")]
    Truncated,
    #[error("a line ends in LF without CR")]
    BareLf,
    #[error("a control byte in the head")]
    ControlByte,
    #[error("too many empty lines before the request")]
    EmptyLines,
    #[error("the request line is not: method SP target SP version")]
    RequestLine,
    #[error("the method is absurdly long")]
    MethodTooLong,
    #[error("CONNECT is not supported")]
    Connect,
    #[error("the request target is neither a path nor an absolute http URI")]
    Target,
    #[error("the version is neither HTTP/1.1 nor HTTP/1.0")]
    Version,
    #[error("the status line is not: version SP status SP reason")]
    StatusLine,
    #[error("the response switches to a protocol nobody asked for")]
    UnaskedSwitch,
    #[error("a field line does not start with a name and a colon")]
    FieldName,
    #[error("whitespace between a field name and its colon")]
    SpaceBeforeColon,
    #[error("a field is continued on the next line")]
    Fold,
    #[error("Host is missing")]
    HostMissing,
    #[error("more than one Host")]
    HostRepeated,
    #[error("Host is not a host with an optional port")]
    HostInvalid,
    #[error("Connection is not a short list of names")]
    ConnectionInvalid,
    #[error("an expectation other than 100-continue")]
    Expectation,
    #[error(transparent)]
    Framing(#[from] FramingError),
}

impl HeadError {
    /// What to answer a client that sent such a request head.
    pub fn status(self) -> Status {
        match self {
            Self::TooLarge { .. } | Self::TooManyFields { .. } => Status::HEAD_TOO_LARGE,
            Self::UriTooLong { .. } => Status::URI_TOO_LONG,
            Self::Expectation => Status::EXPECTATION_FAILED,
            Self::MethodTooLong | Self::Connect => Status::NOT_IMPLEMENTED,
            Self::Framing(FramingError::CodingUnknown) => Status::NOT_IMPLEMENTED,
            Self::Version => Status::VERSION_NOT_SUPPORTED,
            _ => Status::BAD_REQUEST,
        }
    }

    /// A short name for logs, counters and the answer.
    pub fn cause(self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "head-too-large",
            Self::TooManyFields { .. } => "too-many-fields",
            Self::UriTooLong { .. } => "uri-too-long",
            Self::Truncated => "head-truncated",
            Self::BareLf => "bare-lf",
            Self::ControlByte => "control-byte",
            Self::EmptyLines => "empty-lines",
            Self::RequestLine => "request-line",
            Self::MethodTooLong => "method-too-long",
            Self::Connect => "connect-unsupported",
            Self::Target => "target-invalid",
            Self::Version => "version-unsupported",
            Self::StatusLine => "status-line",
            Self::UnaskedSwitch => "unasked-switch",
            Self::FieldName => "field-name",
            Self::SpaceBeforeColon => "space-before-colon",
            Self::Fold => "field-fold",
            Self::HostMissing => "host-missing",
            Self::HostRepeated => "host-repeated",
            Self::HostInvalid => "host-invalid",
            Self::ConnectionInvalid => "connection-invalid",
            Self::Expectation => "expectation-unsupported",
            Self::Framing(error) => match error {
                FramingError::LengthInvalid => "length-invalid",
                FramingError::LengthRepeated => "length-repeated",
                FramingError::LengthAndCoding => "length-and-coding",
                FramingError::CodingInvalid => "coding-invalid",
                FramingError::CodingUnknown => "coding-unknown",
                FramingError::CodingInHttp10 => "coding-in-http10",
            },
        }
    }
}
