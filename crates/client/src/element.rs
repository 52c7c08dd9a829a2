use half::{bf16, f16};
use tributary_api::agent::v1::ElementType;

/// An element type that agents can reduce.
pub trait Element: bytemuck::Pod {
    /// The type's value in the agent's API.
    const TYPE: ElementType;
}

impl Element for f32 {
    const TYPE: ElementType = ElementType::F32;
}

impl Element for f16 {
    const TYPE: ElementType = ElementType::F16;
}

impl Element for bf16 {
    const TYPE: ElementType = ElementType::Bf16;
}

impl Element for i32 {
    const TYPE: ElementType = ElementType::I32;
}

impl Element for f64 {
    const TYPE: ElementType = ElementType::F64;
}

impl Element for i64 {
    const TYPE: ElementType = ElementType::I64;
}
