"""What goes wrong when delivery is set up."""


class DeliveryError(ValueError):
    """Delivery cannot be set up like this; the text names the setting and what was expected."""
