"""``gputailor estimate MODEL``: memory of training or serving, cards that hold it, their price."""

from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Annotated, Final

import typer

from gputailor_agent.catalog import MAX_AGE_DAYS, Catalogue, load_catalogue
from gputailor_agent.cli import options
from gputailor_agent.cli.errors import UsageError
from gputailor_agent.cli.estimate_pages import Answer, Goal, page, settings_of
from gputailor_agent.cli.showing import Output, show
from gputailor_agent.estimating import (
    Estimate,
    ModelError,
    ModelShape,
    Serving,
    Training,
    estimate_serving,
    estimate_training,
    read_model,
)
from gputailor_agent.estimating.cards import Fit, cards_of, fits, next_smaller
from gputailor_agent.estimating.known import known_shape
from gputailor_agent.estimating.levers import serving_changes, training_changes
from gputailor_agent.estimating.serving import CACHE_BITS, WEIGHT_BITS

_EPILOG: Final = """Examples:

  gputailor estimate config.json --serve --sequence 8192 --batch 16

  gputailor estimate 7B --train --optimizer adamw8bit --checkpointing full

  gputailor estimate meta-llama/Llama-3.1-8B --train --gpus 8 --zero 3 --batch 2

  gputailor estimate model.safetensors --train --lora 16 --quantise nf4 --output json
"""
_TRAINING: Final = "Training"
_SERVING: Final = "Serving"
_BASE_BITS: Final = {"nf4": 4.127, "int8": 8.0}
#: Options that only one of the two has, by the names of their parameters.
_OF_TRAINING: Final = (
    "precision", "optimizer", "zero", "lora", "quantise", "checkpointing", "attention",
    "fused_loss",
)  # fmt: skip
_OF_SERVING: Final = ("weights", "cache", "prefill")


class Precision(StrEnum):
    """Number types of training."""

    FP32 = "fp32"
    AMP = "amp"
    MIXED = "mixed"
    BF16 = "bf16"


class Optimizer(StrEnum):
    """Optimizers by the states they keep."""

    ADAMW = "adamw"
    ADAMW8BIT = "adamw8bit"
    ADAFACTOR = "adafactor"
    LION = "lion"
    MOMENTUM = "momentum"
    SGD = "sgd"


class Checkpointing(StrEnum):
    """What is computed again in the backward pass."""

    NONE = "none"
    SELECTIVE = "selective"
    FULL = "full"


class Attention(StrEnum):
    """Whether attention keeps its scores."""

    FLASH = "flash"
    EAGER = "eager"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=_EPILOG)(estimate)


def estimate(
    command: typer.Context,
    model: Annotated[
        str,
        typer.Argument(
            help="A config.json (Hugging Face or TIMM), a folder with one, a .safetensors file, a "
            "public model's id, or a parameter count such as 7B."
        ),
    ],
    *,
    train: Annotated[
        bool,
        typer.Option("--train/--serve", help="Training, or serving.", show_default="--serve"),
    ] = False,
    batch: Annotated[
        int, typer.Option("--batch", min=1, help="Examples per GPU and step; sequences held.")
    ] = 1,
    sequence: Annotated[
        int | None,
        typer.Option(
            "--sequence", min=1, help="Tokens of one; 2048 to train, 4096 to serve, or fewer."
        ),
    ] = None,
    gpus: Annotated[int, typer.Option("--gpus", min=1, help="GPUs that share the model.")] = 1,
    precision: Annotated[
        Precision,
        typer.Option(
            help="fp32; amp (autocast over FP32 weights); mixed (16-bit weights, FP32 master "
            "copy); bf16 (all of it in 16 bits).",
            rich_help_panel=_TRAINING,
        ),
    ] = Precision.MIXED,
    optimizer: Annotated[
        Optimizer, typer.Option(help="By the states it keeps.", rich_help_panel=_TRAINING)
    ] = Optimizer.ADAMW,
    zero: Annotated[
        int,
        typer.Option(
            min=0, max=3, help="ZeRO stage; 3 is FSDP's full sharding.", rich_help_panel=_TRAINING
        ),
    ] = 0,
    lora: Annotated[
        int | None,
        typer.Option(min=1, help="Train adapters of this rank alone.", rich_help_panel=_TRAINING),
    ] = None,
    quantise: Annotated[
        str | None,
        typer.Option(help="Frozen weights under LoRA: nf4 or int8.", rich_help_panel=_TRAINING),
    ] = None,
    checkpointing: Annotated[
        Checkpointing,
        typer.Option(help="Activations computed again.", rich_help_panel=_TRAINING),
    ] = Checkpointing.NONE,
    attention: Annotated[
        Attention,
        typer.Option(help="eager keeps all scores.", rich_help_panel=_TRAINING),
    ] = Attention.FLASH,
    fused_loss: Annotated[
        bool, typer.Option("--fused-loss", help="Loss in chunks.", rich_help_panel=_TRAINING)
    ] = False,
    weights: Annotated[
        str | None,
        typer.Option(
            help=f"Number type of weights: {', '.join(WEIGHT_BITS)}.", rich_help_panel=_SERVING
        ),
    ] = None,
    cache: Annotated[
        str,
        typer.Option(
            help=f"Number type of the KV cache: {', '.join(CACHE_BITS)}.", rich_help_panel=_SERVING
        ),
    ] = "bf16",
    prefill: Annotated[
        int,
        typer.Option(min=1, help="Tokens of prompts in one step.", rich_help_panel=_SERVING),
    ] = 2048,
    vendor: Annotated[str, typer.Option("--vendor", help="Cards of this vendor.")] = "nvidia",
    shown: Annotated[int, typer.Option("--shown", min=1, help="Cards to show.")] = 8,
    prices: options.Prices = None,
    output: Output = "table",
) -> None:
    """Estimate the GPU memory of a model before it runs, and which cards and MIG slices hold it.

    Memory by part with its uncertainty, cards by price, and what would make the next smaller card
    do. No GPU and no weights are needed: files are read locally, and of weights the header alone.
    """
    _check_options(command, train=train)
    catalogue = load_catalogue(prices)
    settings: Training | Serving
    try:
        shape = _shape(model)
        if train and lora is not None and 0 < shape.hidden < lora:
            raise UsageError(
                f"--lora: expected a rank of at most {shape.hidden}, the model's own width, found "
                f"{lora}"
            )
        if train:
            settings = Training(
                precision=precision.value,
                optimizer=optimizer.value,
                batch=batch,
                sequence=sequence or _length(shape, 2048),
                gpus=gpus,
                zero=zero,
                lora_rank=lora,
                base_bits=_base_bits(quantise),
                checkpointing=checkpointing.value,
                attention=attention.value,
                fused_loss=fused_loss,
            )
        else:
            settings = Serving(
                weights=_one_of("--weights", weights or _stored(shape), WEIGHT_BITS),
                cache=_one_of("--cache", cache, CACHE_BITS),
                batch=batch,
                sequence=sequence or _length(shape, 4096),
                gpus=gpus,
                prefill=prefill,
            )
        answer = _answer(shape, settings, catalogue, vendor)
    except ModelError as error:
        raise UsageError(str(error)) from error
    show(output, page(answer, today(), MAX_AGE_DAYS, shown), answer)


def _check_options(command: typer.Context, *, train: bool) -> None:
    """Refuse what was said and would be passed over: the answer would seem to follow it."""
    others = _OF_SERVING if train else _OF_TRAINING
    said = [
        f"--{name.replace('_', '-')}"
        for name in others
        if (source := command.get_parameter_source(name)) is not None
        and source.name == "COMMANDLINE"
    ]
    if said:
        here, there = ("training", "serving") if train else ("serving", "training")
        way = "give --serve" if train else "give --train"
        one = len(said) == 1
        raise UsageError(
            f"{', '.join(said)}: {'an option' if one else 'options'} of {there}, and this "
            f"estimates {here}; leave {'it' if one else 'them'} out, or {way}"
        )


def today() -> date:
    """The date in UTC."""
    return datetime.now(tz=UTC).date()


def _shape(model: str) -> ModelShape:
    """The model as a file, a count, or a public model's id."""
    try:
        return read_model(model)
    except ModelError as error:
        known = known_shape(model) if "no such file" in str(error) else None
        if known is None:
            raise
        return known


def _length(shape: ModelShape, usual: int) -> int:
    """The usual length of a sequence, or the model's longest where that is less."""
    return min(usual, shape.positions or usual)


def _base_bits(quantise: str | None) -> float | None:
    if quantise is None:
        return None
    return _BASE_BITS[_one_of("--quantise", quantise, _BASE_BITS)]


def _one_of(option: str, value: str, known: dict[str, float]) -> str:
    if value not in known:
        raise UsageError(f"{option}: expected {', '.join(known)}, found {value!r}")
    return value


def _stored(shape: ModelShape) -> str:
    """The number type of a checkpoint that says it, else 16 bits."""
    bits = shape.stored_bits or WEIGHT_BITS["bf16"]
    near = min(WEIGHT_BITS, key=lambda name: (abs(WEIGHT_BITS[name] - bits), name))
    return "bf16" if near == "fp32" else near


def _answer(
    shape: ModelShape, settings: Training | Serving, catalogue: Catalogue, vendor: str
) -> Answer:
    found = _estimated(shape, settings)
    half = not (isinstance(settings, Training) and settings.precision == "fp32")
    cards = cards_of(catalogue, vendor=vendor, half=half)
    if not cards:
        known = ", ".join(sorted({device.vendor for device in catalogue.devices}))
        raise UsageError(f"--vendor: no cards of {vendor!r} are known; vendors are {known}")
    held = fits(found.total, cards, settings.gpus)
    return Answer(
        task="training" if isinstance(settings, Training) else "serving",
        model=shape,
        settings=settings_of(settings),
        estimate=found,
        total=found.total,
        fits=tuple(held),
        goal=_goal(shape, settings, next_smaller(held)),
    )


def _estimated(shape: ModelShape, settings: Training | Serving) -> Estimate:
    if isinstance(settings, Training):
        return estimate_training(shape, settings)
    return estimate_serving(shape, settings)


def _goal(shape: ModelShape, settings: Training | Serving, aim: Fit | None) -> Goal | None:
    if aim is None:
        return None
    usable = aim.card.usable_bytes
    changes = (
        training_changes(shape, settings, usable)
        if isinstance(settings, Training)
        else serving_changes(shape, settings, usable)
    )
    if aim.card.mig:  # slices cannot work together
        changes = tuple(change for change in changes if change.gpus == settings.gpus)
    return Goal(fit=aim, changes=changes)
