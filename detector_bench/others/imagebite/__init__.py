"""ImageBiTe: verdicts on how T2I models represent communities, against requirements that its users write down."""
