using System.Collections.Generic;
using System.Globalization;
using System.Linq;
using System.Text;

namespace LuckyTransport
{
    /// <summary>One array per env: its element type, shape and bounds.</summary>
    public sealed class ArraySpec
    {
        public ArraySpec(ElementType type, params int[] shape)
        {
            if (shape.Any(extent => extent < 1))
                throw BatchSpec.Refused("shape [{0}] has an empty axis; every extent is at least 1", string.Join(", ", shape));
            Type = type;
            Shape = shape;
        }

        public ElementType Type { get; private set; }

        /// <summary>Without the axis of the batch; empty for a single number.</summary>
        public int[] Shape { get; private set; }

        /// <summary>
        /// Bounds: null for none, one number for all elements, or one for each, in the order of memory; infinity bounds
        /// nothing.
        /// </summary>
        public double[] Low { get; set; }

        /// <summary>As Low.</summary>
        public double[] High { get; set; }

        /// <summary>The number of values of a Discrete space, whose shape is empty; 0 for any other.</summary>
        public int Discrete { get; set; }

        /// <summary>Elements per env.</summary>
        public int Size { get { return Shape.Aggregate(1, (size, extent) => checked(size * extent)); } }

        internal int SizeBytes { get { return checked(Size * Width); } }

        private int Width
        {
            get
            {
                switch (Type)
                {
                    case ElementType.Int8: case ElementType.Uint8: case ElementType.Bool: return 1;
                    case ElementType.Int16: case ElementType.Uint16: return 2;
                    case ElementType.Float64: case ElementType.Int64: case ElementType.Uint64: return 8;
                    default: return 4;
                }
            }
        }

        /// <summary>Throws SpecError for what a client could make no space of.</summary>
        private void Check(string what)
        {
            CheckBounds(Low, what + ".Low");
            CheckBounds(High, what + ".High");
            for (int i = 0; Low != null && High != null && i < Size; i++)
            {
                double low = Low[Low.Length == 1 ? 0 : i], high = High[High.Length == 1 ? 0 : i];
                if (low > high) throw BatchSpec.Refused("{0}: Low {1} is above High {2} at element {3}; swap them", what, low, high, i);
            }
            if (Discrete < 0) throw BatchSpec.Refused("{0}.Discrete {1}: expected the number of values, at least 1", what, Discrete);
            if (Discrete > 0 && (Shape.Length > 0 || Type == ElementType.Float32 || Type == ElementType.Float64 || Type == ElementType.Bool))
                throw BatchSpec.Refused("{0}: Discrete {1} of {2} with {3} axes; a Discrete space is one integer, without a shape",
                    what, Discrete, Type, Shape.Length);
        }

        private void CheckBounds(double[] values, string what)
        {
            if (values == null) return;
            if (values.Length != 1 && values.Length != Size)
                throw BatchSpec.Refused("{0} has {1} numbers for {2} elements; expected 1 or one for each", what, values.Length, Size);
            int nan = System.Array.FindIndex(values, double.IsNaN);
            if (nan >= 0) throw BatchSpec.Refused("{0}[{1}] is NaN; expected a number, infinite for no bound", what, nan);
        }

        internal SortedDictionary<string, object> ToPlain(string what)
        {
            Check(what);
            var plain = new SortedDictionary<string, object>(System.StringComparer.Ordinal);
            plain["dtype"] = Type.ToString().ToLowerInvariant();
            plain["shape"] = Shape;
            plain["low"] = Bounds(Low);
            plain["high"] = Bounds(High);
            plain["n"] = Discrete;
            return plain;
        }

        private object Bounds(double[] values)
        {
            if (values == null) return null;
            return values.Length == 1 ? values[0] : Nested(values, 0, 0);
        }

        private object Nested(double[] values, int axis, int first)
        {
            int stride = Shape.Skip(axis + 1).Aggregate(1, (size, extent) => size * extent);
            return Enumerable.Range(0, Shape[axis]).Select(i =>
                axis == Shape.Length - 1 ? values[first + i] : Nested(values, axis + 1, first + i * stride)).ToArray();
        }
    }

    /// <summary>The sizes, types and names of a batch: all a client knows of an engine before the first step.</summary>
    public sealed class BatchSpec
    {
        public BatchSpec(string engine, int numEnvs, ArraySpec observation, ArraySpec action)
        {
            if (numEnvs < 1)
                throw Refused("numEnvs {0}: expected at least 1", numEnvs);
            Engine = engine;
            NumEnvs = numEnvs;
            Observation = observation;
            Action = action;
        }

        public string Engine { get; private set; }

        /// <summary>Envs that step together.</summary>
        public int NumEnvs { get; private set; }

        public ArraySpec Observation { get; private set; }

        public ArraySpec Action { get; private set; }

        /// <summary>Rows of a step's signals whose sum is the reward; at least one.</summary>
        public string[] RewardTerms { get; set; } = { "reward" };

        /// <summary>Further rows: why an env ended, 0 or 1.</summary>
        public string[] TerminationTerms { get; set; } = new string[0];

        /// <summary>Those of TerminationTerms that truncate.</summary>
        public string[] TimeoutTerms { get; set; } = new string[0];

        /// <summary>A name for each element of an observation, or none.</summary>
        public string[] ObservationNames { get; set; } = new string[0];

        /// <summary>A name for each element of an action, or none.</summary>
        public string[] ActionNames { get; set; } = new string[0];

        /// <summary>Simulated seconds of one step; 0 when not known.</summary>
        public double StepSeconds { get; set; }

        /// <summary>False for an engine that cannot leave single envs as they are while the others step.</summary>
        public bool Hold { get; set; } = true;

        /// <summary>Texts, numbers and booleans that a client sees by VectorEnv.get_attr.</summary>
        public Dictionary<string, object> Attributes { get; set; } = new Dictionary<string, object>();

        /// <summary>The env of the agent of that name: "agent_3" is env 3, "" env 0; -1 when there is none.</summary>
        public int EnvOf(string agent)
        {
            const string prefix = "agent_";
            int env;
            if (agent.Length == 0) return 0;
            if (!agent.StartsWith(prefix, System.StringComparison.Ordinal)) return -1;
            string digits = agent.Substring(prefix.Length);
            bool isNumber = int.TryParse(digits, NumberStyles.None, CultureInfo.InvariantCulture, out env);
            return isNumber && env < NumEnvs ? env : -1;
        }

        /// <summary>What a client asks first of an agent: the names and sizes of its observation and action.</summary>
        internal GetAgentSchemaResponse SchemaOf(GetAgentSchemaRequest request)
        {
            int env = EnvOf(request.AgentName);
            var schema = env < 0 ? new AgentSchema { AgentName = request.AgentName } : new AgentSchema
            {
                AgentName = "agent_" + env, ObservationNames = ObservationNames, ActionNames = ActionNames,
                ObservationSize = (uint)Observation.Size, ActionSize = (uint)Action.Size,
            };
            return new GetAgentSchemaResponse { Schema = schema };
        }

        internal int NumTerms { get { return RewardTerms.Length + TerminationTerms.Length; } }

        internal string ToJson()
        {
            Check();
            var plain = new SortedDictionary<string, object>(System.StringComparer.Ordinal)
            {
                { "engine", Engine }, { "num_envs", NumEnvs }, { "observation", Observation.ToPlain("Observation") },
                { "action", Action.ToPlain("Action") }, { "reward_terms", RewardTerms },
                { "termination_terms", TerminationTerms }, { "timeout_terms", TimeoutTerms },
                { "observation_names", ObservationNames }, { "action_names", ActionNames },
                { "observation_terms", new object[0] }, { "action_groups", new object[0] }, { "reset_ticks", 0 },
                { "hold", Hold }, { "step_s", StepSeconds },
                { "attributes", new SortedDictionary<string, object>(Attributes, System.StringComparer.Ordinal) },
            };
            var text = new StringBuilder();
            Json(text, plain);
            return text.ToString();
        }

        /// <summary>Throws SpecError for a spec that contradicts itself or cannot travel.</summary>
        private void Check()
        {
            if (RewardTerms.Length == 0) throw Refused("a batch needs at least one reward term");
            CheckUnique("RewardTerms", RewardTerms);
            CheckUnique("TerminationTerms", TerminationTerms);
            foreach (string term in TimeoutTerms)
                if (System.Array.IndexOf(TerminationTerms, term) < 0)
                    throw Refused("timeout term '{0}' is no termination term; add it to TerminationTerms, which has: {1}",
                        term, TerminationTerms.Length == 0 ? "none" : string.Join(", ", TerminationTerms));
            CheckNames("ObservationNames", ObservationNames, Observation);
            CheckNames("ActionNames", ActionNames, Action);
            if (!(StepSeconds >= 0) || double.IsInfinity(StepSeconds))
                throw Refused("StepSeconds {0}: expected seconds >= 0", StepSeconds);
            foreach (var pair in Attributes) CheckAttribute(pair.Key, pair.Value);
        }

        private static void CheckUnique(string what, string[] terms)
        {
            for (int i = 0; i < terms.Length; i++)
                if (System.Array.IndexOf(terms, terms[i]) < i)
                    throw Refused("{0} has '{1}' twice; give each term a name of its own", what, terms[i]);
        }

        private static void CheckNames(string what, string[] names, ArraySpec array)
        {
            if (names.Length != 0 && names.Length != array.Size)
                throw Refused("{0} has {1} names for {2} elements", what, names.Length, array.Size);
        }

        private static void CheckAttribute(string name, object value)
        {
            bool isNumber = value != null && value.GetType().IsPrimitive && !(value is char);
            if (!(value is string) && !isNumber)
                throw Refused("Attributes[\"{0}\"] is {1}; expected a text, a number or a boolean",
                    name, value == null ? "null" : "a " + value.GetType());
            double real = value is double || value is float ? System.Convert.ToDouble(value) : 0;
            if (double.IsNaN(real) || double.IsInfinity(real))
                throw Refused("Attributes[\"{0}\"] is {1}; expected a finite number", name, value);
        }

        internal static TransportException Refused(string text, params object[] values)
        {
            return new TransportException(WireCode.SpecError, string.Format(CultureInfo.InvariantCulture, text, values));
        }

        private static void Json(StringBuilder text, object value)
        {
            var map = value as SortedDictionary<string, object>;
            var list = value as System.Array;
            if (value == null) text.Append("null");
            else if (value is string) JsonText(text, (string)value);
            else if (value is bool) text.Append((bool)value ? "true" : "false");
            else if (value is float || value is double) JsonNumber(text, System.Convert.ToDouble(value));
            else if (map != null) JsonItems(text, '{', '}', map, pair => { JsonText(text, pair.Key); text.Append(':'); Json(text, pair.Value); });
            else if (list != null) JsonItems(text, '[', ']', list.Cast<object>(), one => Json(text, one));
            else text.Append(System.Convert.ToString(value, CultureInfo.InvariantCulture));
        }

        private static void JsonItems<T>(StringBuilder text, char open, char close, IEnumerable<T> items, System.Action<T> put)
        {
            text.Append(open);
            int first = text.Length;
            foreach (T item in items)
            {
                if (text.Length > first) text.Append(',');
                put(item);
            }
            text.Append(close);
        }

        // JSON has no infinity: null is no bound.
        private static void JsonNumber(StringBuilder text, double value)
        {
            if (double.IsInfinity(value) || double.IsNaN(value))
            {
                text.Append("null");
                return;
            }
            string digits = value.ToString("R", CultureInfo.InvariantCulture);
            text.Append(digits);
            if (digits.All(c => c == '-' || char.IsDigit(c))) text.Append(".0");
        }

        private static void JsonText(StringBuilder text, string value)
        {
            text.Append('"');
            foreach (char c in value)
                if (c < ' ' || c > '~' || c == '"' || c == '\\') text.Append("\\u").Append(((int)c).ToString("x4"));
                else text.Append(c);
            text.Append('"');
        }
    }
}
