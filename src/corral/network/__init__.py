"""The gateway: connections that corral makes in a command's stead, to where the policy permits."""
