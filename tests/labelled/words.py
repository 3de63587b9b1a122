"""The words of the labelled conversations, in English and Chinese; synthetic."""

RULES = {
    "en": (
        "You are a careful coding assistant. Read files before you change them. Keep answers short. "
        "Never run destructive commands without asking. Prefer small, tested changes and explain why. "
    ),
    "zh": (
        "你是一个谨慎的编程助手。修改文件之前先阅读它们。回答要简短。没有确认不要执行破坏性命令。"
        "优先做小而经过测试的修改，并说明原因。"
    ),
}
ASKS = {
    "en": (
        "Please read the configuration loader and tell me where the default port comes from.",
        "Now rename the setting and keep the old name working with a warning.",
        "Run the tests that cover it and show me what fails.",
        "Write a short note for the changelog about this.",
        "Thanks. Which other modules import that loader?",
    ),
    "zh": (
        "请阅读配置加载器，告诉我默认端口是从哪里来的。",
        "现在重命名这个设置，旧名字继续可用但要给出警告。",
        "运行覆盖它的测试，并告诉我哪些失败了。",
        "为这个改动写一段简短的更新日志。",
        "谢谢。还有哪些模块导入了这个加载器？",
    ),
}
SAYS = {
    "en": (
        "The default port is set in the settings module and may be overridden by the environment.",
        "I renamed the setting and kept the old name as an alias that warns once.",
        "Two tests fail because they still use the old name; both are easy to fix.",
        "Here is a short note that says what changed and why it matters.",
        "Three modules import it: the server, the worker and the command line.",
    ),
    "zh": (
        "默认端口在设置模块里定义，可以被环境变量覆盖。",
        "我已经重命名了设置，旧名字作为别名保留，并会警告一次。",
        "有两个测试失败，因为它们还在用旧名字；都很容易修复。",
        "这是一段简短的说明，写明改了什么以及为什么重要。",
        "有三个模块导入了它：服务器、工作进程和命令行。",
    ),
}
THINKS = {
    "en": "The user wants the origin of a value, so I look for its definition first and then for overrides.",
    "zh": "用户想知道这个值的来源，所以我先找它的定义，再找覆盖它的地方。",
}
RESULT = {
    "en": "port: 8084\nhost: 127.0.0.1\n" + "value = lookup(key, default)\n" * 40,
    "zh": "端口: 8084\n主机: 127.0.0.1\n" + "值 = 查找(键, 默认值)\n" * 40,
}
CLOCKS = (
    ("Current time: Monday 10:41", "Current time: Monday 10:42"),
    ("Now: 2026-07-09T10:41:05Z", "Now: 2026-07-09T10:43:59Z"),
    ("Session clock: Thu, 09 Jul 2026 10:41:00 +0000", "Session clock: Thu, 09 Jul 2026 11:02:00 +0000"),
    ("Time: 9:05 PM (Europe/Berlin)", "Time: 9:17 PM (Europe/Berlin)"),
    ("当前时间：2026年7月9日星期四 10:41", "当前时间：2026年7月9日星期四 10:42"),
    ("现在是上午10点41分", "现在是上午10点58分"),
    ("timestamp=1783593660", "timestamp=1783593725"),
)
DAYS = (
    ("Today: Thu Jul 9 2026", "Today: Fri Jul 10 2026"),
    ("Today's date is 2026-07-09.", "Today's date is 2026-07-10."),
    ("Date: July 31, 2026", "Date: August 1, 2026"),
    ("今天是2026年7月9日，星期四。", "今天是2026年7月10日，星期五。"),
    ("日期：2026/7/9", "日期：2026/7/10"),
)
COUNTS = (
    ("Context used: 41% (41k/100k tokens)", "Context used: 43% (43k/100k tokens)"),
    ("Turn 3 of 50", "Turn 4 of 50"),
    ("Budget left: $4.75", "Budget left: $4.50"),
    ("上下文已使用 41%", "上下文已使用 43%"),
    ("第3轮，共50轮", "第4轮，共50轮"),
)
SNAPSHOTS = (
    (
        "<env>\nIs git repo: yes\nBranch: main\ngit status:\n M services/app.py\n</env>",
        "<env>\nIs git repo: yes\nBranch: main\ngit status:\n M services/app.py\n?? notes.txt\n</env>",
    ),
    (
        "gitStatus: branch main\nRecent commits:\na1b2c3d Fix the loader\n0d9e8f7 Test",
        "gitStatus: branch main\nRecent commits:\n77aa88b Rename it\na1b2c3d Fix the loader\n0d9e8f7 Test",
    ),
    (
        "# Workspace\nDirectory structure:\nsrc/\n  app.py\n  loader.py",
        "# Workspace\nDirectory structure:\nsrc/\n  app.py\n  loader.py\n  settings.py",
    ),
    (
        "【工作区】\n当前分支：main\n未跟踪的文件：\n  笔记.txt",
        "【工作区】\n当前分支：main\n未跟踪的文件：\n  笔记.txt\n  草稿.txt",
    ),
)
EDITS = (
    ("Answer in plain text.", "Answer in Markdown, with headings."),
    ("Agent version 2.1.332", "Agent version 2.1.333"),
    ("You may use Python 3.11.", "You may use Python 3.12."),
    ("用中文回答。", "用英文回答，除非用户要求。"),
    ("Be brief.", "Be brief. Ask before you delete anything."),
)
MEMORIES = (
    ("<memory>\nThe user likes tea.\n</memory>", "<memory>\nThe user likes tea and tests.\n</memory>",
     "<memory>\nThe user works late.\n</memory>"),
    ("## Skills\n- read\n- write\n", "## Skills\n- read\n- write\n- search the web\n", "## Skills\n- plan\n"),
    ("<记忆>\n用户喜欢茶。\n</记忆>", "<记忆>\n用户喜欢茶和测试。\n</记忆>",
     "<记忆>\n用户常在晚上工作。\n</记忆>"),
)  # fmt: skip
