//! Macros of the engine's crates.

/// Implements `Debug` for a type by the fields that are named here, and `..` for the rest. A name
/// without a value is that of a field:
/// `debug! { impl[T: Send] Pool[T] { full, stats = |pool| pool.stats() } }`
#[macro_export]
macro_rules! debug {
    (
        impl[$($generics:tt)*] $name:ident[$($arguments:tt)*] {
            $($field:ident $(= |$this:ident| $value:expr)?),* $(,)?
        }
    ) => {
        impl<$($generics)*> ::std::fmt::Debug for $name<$($arguments)*> {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                let mut fields = f.debug_struct(stringify!($name));
                $(
                    $(let $this = self;)?
                    fields.field(stringify!($field), debug!(@value self $field $($value)?));
                )*
                fields.finish_non_exhaustive()
            }
        }
    };
    (@value $self:ident $field:ident) => {
        &$self.$field
    };
    (@value $self:ident $field:ident $value:expr) => {
        &$value
    };
}

/// Implements `Display` for an enum by one text per variant, which may contain the variant's
/// fields: `display! { BindError { NoSuchShard { shard } => "there is no shard {shard}" } }`
#[macro_export]
macro_rules! display {
    (
        $name:ident {
            $($variant:ident $({ $($field:ident),* })? $(($value:ident))? => $text:literal),* $(,)?
        }
    ) => {
        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                match self {
                    $($name::$variant $({ $($field),* })? $(($value))? => write!(f, $text),)*
                }
            }
        }
    };
}

/// Says that a panic leaves values of a type consistent, where its fields cannot tell: no foreign
/// code runs while their state is half-changed. `unwind_safe! { impl[T: Send] Pool[T] }`
#[macro_export]
macro_rules! unwind_safe {
    (impl[$($generics:tt)*] $name:ident[$($arguments:tt)*]) => {
        impl<$($generics)*> ::std::panic::UnwindSafe for $name<$($arguments)*> {}
        impl<$($generics)*> ::std::panic::RefUnwindSafe for $name<$($arguments)*> {}
    };
}
