//! Files that `torch.save` or Python's pickle wrote, read without executing any of what they hold.
//!
//! [`open`] tells the containers apart and finds the pickle (`container`, `legacy`); [`SavedObject::unpickle`] reads it into
//! inert data (`pickle`, `globals`, `value`); [`Rest::locate`] finds the storages it refers to, and a
//! [`Reader`] gathers tensors from them (`strided`). Errors are reasons in words, without the file's name.
//! What the tensors mean is for others to say.

mod container;
mod globals;
mod legacy;
mod pickle;
mod reader;
mod strided;
mod value;

pub use container::Container;
pub(crate) use container::open;
pub(crate) use pickle::Pickle;
pub(crate) use reader::Reader;
pub(crate) use value::{Id, Node, Strided, Value};
