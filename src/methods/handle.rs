//! What a method keeps of a state, by handles that know the type.

use std::marker::PhantomData;

use crate::plan::{Contents, PlanBuilder, TensorId};

/// Names a value of a state: a tensor while the state is in work, an array over all states afterwards. The name stands in
/// checkpoints; programs use the handle, which knows the type.
#[derive(Debug)]
pub struct Handle<T> {
    pub(crate) name: &'static str,
    of: PhantomData<T>,
}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Handle<T> {}

/// A number that a tensor may hold.
pub trait Number: bytemuck::Pod {
    /// Whether a vector of such numbers is what the contents say.
    fn is_in(contents: Contents) -> bool;
}

impl Number for f32 {
    fn is_in(contents: Contents) -> bool {
        matches!(contents, Contents::F32(_))
    }
}

impl Number for f64 {
    fn is_in(contents: Contents) -> bool {
        matches!(contents, Contents::F64(_))
    }
}

impl Number for u32 {
    fn is_in(contents: Contents) -> bool {
        matches!(contents, Contents::U32(_))
    }
}

impl<T: Number> Handle<T> {
    pub const fn new(name: &'static str) -> Self {
        Self { name, of: PhantomData }
    }

    /// The tensor of a plan that holds the value.
    ///
    /// # Panics
    /// If the tensor holds other numbers: that is a mistake in the method.
    pub fn at(self, plan: &PlanBuilder, tensor: TensorId) -> Held {
        assert!(T::is_in(plan.contents(tensor)), "{} is of another type", self.name);
        Held {
            name: self.name,
            tensor,
        }
    }
}

/// A value in a plan, for the driver, which moves bytes.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    pub(crate) name: &'static str,
    pub(crate) tensor: TensorId,
}
