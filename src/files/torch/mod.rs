//! Files that `torch.save` wrote, read without executing any of what they hold.
//!
//! [`open`] tells the two containers apart and finds the pickle (`container`); [`SavedObject::unpickle`] reads it into
//! inert data (`pickle`, `globals`, `value`); [`Rest::locate`] finds the storages it refers to, and
//! [`Storages::values`] gathers tensors from them (`strided`). Errors are reasons in words, without the file's name.
//! What the tensors mean is for others to say.

mod container;
mod globals;
mod pickle;
mod strided;
mod value;

pub use container::Container;
pub(crate) use container::open;
pub(crate) use pickle::Pickle;
pub(crate) use value::{Id, Node, Strided, Value};
