//! One error for the whole engine: what happened (`ErrorKind`), whether trying again can help (`Retry`), and a
//! message for a person. The errno, the Python exception and the exit code all follow from the kind, by one table.
//!
//! A message never holds a secret or a raw response body; callers put facts in `context`, not in the text.

use std::fmt;
use std::sync::Arc;

/// What happened. The table of `docs/reference/errors.md` is generated from `ErrorKind::ALL`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The file, object, bucket or path is not there.
    NotFound,
    /// The origin or the operating system refused the credentials or the rights, or the request without a reason.
    PermissionDenied,
    /// The object changed under its snapshot: neither the old nor a mix of bytes is served.
    Stale,
    /// Bytes did not match their checksum, or a file of ours is damaged.
    Corrupt,
    /// The origin asked us to slow down, beyond the retry budget.
    Throttled,
    /// The origin could not be reached at all (name, connection, TLS).
    Unreachable,
    /// No answer within the deadline.
    Timeout,
    /// No room left where room was needed.
    NoSpace,
    /// Somebody else holds what we need (a cache folder, a mountpoint).
    Busy,
    /// This origin, kernel or file system cannot do what was asked.
    Unsupported,
    /// The caller's words are wrong: a URL, an option, a path.
    Config,
    /// A directory was asked for as a file.
    IsDirectory,
    /// A file was asked for as a directory.
    NotDirectory,
    /// A write was asked of a read-only tree.
    ReadOnly,
    /// The caller went away, or the engine is closing.
    Cancelled,
    /// A fault of ours, or one we have no name for.
    Unexpected,
}

/// Whether trying the same thing again can help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// It will fail the same way again.
    Permanent,
    /// It may pass when tried again.
    Temporary,
    /// It was temporary, and still failed after all retries.
    Exhausted,
}

impl ErrorKind {
    /// Every kind with its errno, its Python exception and its meaning: the one table behind all conversions.
    pub const ALL: &'static [(ErrorKind, i32, &'static str, &'static str)] = &[
        (ErrorKind::NotFound, libc::ENOENT, "MissingFileError", "not there"),
        (ErrorKind::PermissionDenied, libc::EACCES, "RefusedError", "credentials or rights were refused"),
        (ErrorKind::Stale, libc::ESTALE, "StaleDataError", "the object changed since the snapshot"),
        (ErrorKind::Corrupt, libc::EIO, "CorruptDataError", "bytes do not match their checksum"),
        (
            ErrorKind::Throttled,
            libc::EIO,
            "OriginThrottledError",
            "the origin asked to slow down, beyond the retry budget",
        ),
        (ErrorKind::Unreachable, libc::EIO, "OriginUnreachableError", "the origin cannot be reached"),
        (ErrorKind::Timeout, libc::ETIMEDOUT, "DeadlineError", "no answer within the deadline"),
        (ErrorKind::NoSpace, libc::ENOSPC, "NoSpaceError", "no room left"),
        (ErrorKind::Busy, libc::EBUSY, "BusyError", "somebody else holds it"),
        (ErrorKind::Unsupported, libc::EOPNOTSUPP, "UnsupportedError", "cannot be done here"),
        (ErrorKind::Config, libc::EINVAL, "ConfigError", "the request or the configuration is wrong"),
        (ErrorKind::IsDirectory, libc::EISDIR, "DirectoryInsteadError", "a directory, not a file"),
        (ErrorKind::NotDirectory, libc::ENOTDIR, "NotDirectoryInsteadError", "a file, not a directory"),
        (ErrorKind::ReadOnly, libc::EROFS, "ReadOnlyError", "the tree is read-only"),
        (ErrorKind::Cancelled, libc::EINTR, "CancelledError", "cancelled"),
        (ErrorKind::Unexpected, libc::EIO, "EngineError", "a fault of Headrace itself"),
    ];

    /// The errno that a file operation failing with this kind returns.
    pub fn errno(self) -> i32 {
        self.row().1
    }

    /// The name of the class in `headrace.errors` for this kind.
    pub fn exception(self) -> &'static str {
        self.row().2
    }

    /// The kind's own name, stable, for machines.
    pub fn name(self) -> String {
        format!("{self:?}")
    }

    fn row(self) -> &'static (ErrorKind, i32, &'static str, &'static str) {
        Self::ALL.iter().find(|row| row.0 == self).unwrap_or(&Self::ALL[Self::ALL.len() - 1])
    }
}

/// An error that can be shared by all who waited for the same thing.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

struct Inner {
    kind: ErrorKind,
    retry: Retry,
    message: String,
    hint: Option<String>,
    context: Vec<(&'static str, String)>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

/// The engine's result.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A permanent error of `kind`; `message` says what failed, on what.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error(Arc::new(Inner {
            kind,
            retry: Retry::Permanent,
            message: message.into(),
            hint: None,
            context: Vec::new(),
            source: None,
        }))
    }

    /// A wrong word of the caller.
    pub fn config(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Config, message)
    }

    /// A failed system call on `path`, with the kind that its errno means.
    pub fn from_io(action: &str, path: &std::path::Path, error: std::io::Error) -> Self {
        let kind = kind_of_io(&error);
        Self::new(kind, format!("cannot {action} {}: {}", path.display(), plain_io_text(&error))).with_source(error)
    }

    /// The same error, marked as worth (or no longer worth) another try.
    pub fn with_retry(self, retry: Retry) -> Self {
        self.edit(|inner| inner.retry = retry)
    }

    /// The same error with what the person should do next.
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        let hint = hint.into();
        self.edit(|inner| inner.hint = Some(hint))
    }

    /// The same error with one more fact.
    pub fn with_context(self, name: &'static str, value: impl fmt::Display) -> Self {
        let value = value.to_string();
        self.edit(|inner| inner.context.push((name, value)))
    }

    /// The same error with the error that caused it.
    pub fn with_source(self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.edit(|inner| inner.source = Some(Arc::new(source)))
    }

    /// What happened.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether another try can help.
    pub fn retry(&self) -> Retry {
        self.0.retry
    }

    /// True when another try can help.
    pub fn is_temporary(&self) -> bool {
        self.0.retry == Retry::Temporary
    }

    /// The errno of a file operation that fails with this error.
    pub fn errno(&self) -> i32 {
        self.0.kind.errno()
    }

    /// What failed, on what.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// What to do next, when we know.
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// What failed and what to do next, where there is room for one text only.
    pub fn sentence(&self) -> String {
        match self.hint() {
            Some(hint) => format!("{self}; {hint}"),
            None => self.to_string(),
        }
    }

    /// The facts beside the message.
    pub fn context(&self) -> &[(&'static str, String)] {
        &self.0.context
    }

    fn edit(self, change: impl FnOnce(&mut Inner)) -> Self {
        let mut inner = match Arc::try_unwrap(self.0) {
            Ok(inner) => inner,
            Err(shared) => Inner {
                kind: shared.kind,
                retry: shared.retry,
                message: shared.message.clone(),
                hint: shared.hint.clone(),
                context: shared.context.clone(),
                source: shared.source.clone(),
            },
        };
        change(&mut inner);
        Error(Arc::new(inner))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        for (index, (name, value)) in self.0.context.iter().enumerate() {
            write!(f, "{}{name}={value}", if index == 0 { " (" } else { ", " })?;
        }
        if self.0.context.is_empty() { Ok(()) } else { f.write_str(")") }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ({:?}): {self}", self.0.kind, self.0.retry)?;
        if let Some(hint) = &self.0.hint {
            write!(f, "; hint: {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn std::error::Error + 'static))
    }
}

fn kind_of_io(error: &std::io::Error) -> ErrorKind {
    use std::io::ErrorKind as Io;
    match (error.raw_os_error(), error.kind()) {
        (Some(libc::ENOSPC | libc::EDQUOT), _) => ErrorKind::NoSpace,
        (Some(libc::EROFS), _) => ErrorKind::ReadOnly,
        (Some(libc::EBUSY), _) => ErrorKind::Busy,
        (Some(libc::ENOTDIR), _) => ErrorKind::NotDirectory,
        (Some(libc::EISDIR), _) => ErrorKind::IsDirectory,
        (_, Io::NotFound) => ErrorKind::NotFound,
        (_, Io::PermissionDenied) => ErrorKind::PermissionDenied,
        (_, Io::TimedOut) => ErrorKind::Timeout,
        (_, Io::Unsupported) => ErrorKind::Unsupported,
        _ => ErrorKind::Unexpected,
    }
}

/// `No such file or directory` without Rust's ` (os error 2)`.
fn plain_io_text(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}
