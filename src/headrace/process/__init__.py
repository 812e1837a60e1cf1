"""Programs of ours as processes of this machine: what makes their start quick, and what the kernel says of them."""
