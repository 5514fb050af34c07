// A scene in a few lines, as a Unity build would connect: NamedPipeClientStream, StreamReader, StreamWriter.
// Its sessions take three commands each; the score is the init data's "Goal" plus the commands that said true.
using System;
using System.Collections.Generic;
using System.IO;
using System.IO.Pipes;
using System.Text;
using System.Text.RegularExpressions;

static class Peer
{
    static StreamWriter writer;
    static int commandsLeft;

    static void Say(string line) { writer.WriteLine(line); }

    static int Main(string[] arguments)
    {
        string name = arguments[Array.IndexOf(arguments, "-p") + 1];
        using (var pipe = new NamedPipeClientStream(".", name, PipeDirection.InOut))
        {
            pipe.Connect(10000);
            var reader = new StreamReader(pipe, new UTF8Encoding(false));
            writer = new StreamWriter(pipe, new UTF8Encoding(false)) { AutoFlush = true, NewLine = "\r\n" };
            for (string line; (line = reader.ReadLine()) != null;)
            {
                if (line == "quit") { Say("QUIT"); return 0; }
                if (!line.StartsWith("run ")) { Say("Warning: " + line); continue; }
                if (line != "run add") { Say("Error: Experiment name \"" + line.Substring(4) + "\" was not recognized."); continue; }
                Say("SUCCESS");
                var goals = new List<double>();
                while ((line = reader.ReadLine()) != "END")
                    goals.Add(double.Parse(Regex.Match(line, "\"Goal\":([-+0-9.e]+)").Groups[1].Value,
                        System.Globalization.CultureInfo.InvariantCulture));
                Play(reader, goals);
            }
        }
        return 1;
    }

    static void Play(StreamReader reader, List<double> goals)
    {
        var taken = new int[goals.Count];
        commandsLeft = 3 * goals.Count;
        for (int session = 0; session < goals.Count; session++)
        {
            Say(session.ToString());
            Say(session + " {\"Taken\":0}");
        }
        while (commandsLeft-- > 0)
        {
            string[] words = reader.ReadLine().Split(' ');
            int session = int.Parse(words[0]);
            if (words[1] == "{\"Add\":true}") goals[session] += 1;
            if (++taken[session] < 3) Say(session + " {\"Taken\":" + taken[session] + "}");
            else Say(session + " " + goals[session].ToString("R", System.Globalization.CultureInfo.InvariantCulture));
        }
        Say("END");
    }
}
