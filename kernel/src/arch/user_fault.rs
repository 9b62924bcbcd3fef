//! How an access to a program's memory fails.

/// The user address was not there, or not to be accessed so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UserFault;

pub type UserResult<T = ()> = Result<T, UserFault>;

/// Why a string could not be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StringError {
    Fault,
    /// `dst` is full and no NUL was seen.
    TooLong,
}
