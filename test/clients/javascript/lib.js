// What the applications share: they say what they see, and what an error is.
exports.attempt = async (what, action) => {
    try {
        console.log(what + ":", JSON.stringify(await action()));
    } catch (e) {
        const cause = e.original || e.driverError || e.parent || e;
        console.log(what + ":", cause.code || e.name, ...(cause.code === "40001" ? [] : [String(cause.message).split(" - ").pop(), cause.detail || ""]));
    }
};

exports.run = main => main().then(() => process.exit(0), e => {
    console.log("failed:", e.stack);
    process.exit(1);
});
